package rest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
)

// maxOverrides is how many decisions may be imported at once.
const maxOverrides = 10_000

// override is what a person decided about a test, as a file has it. The names
// find the test where its id is another: in another organisation, or in a
// repository that was renamed.
type override struct {
	TestID    string  `json:"test_id"`
	Name      string  `json:"name"`
	Parent    string  `json:"parent"`
	File      string  `json:"file"`
	Classname string  `json:"classname"`
	Variant   string  `json:"variant"`
	Setting   string  `json:"setting"`
	Owner     string  `json:"owner"`
	Reason    string  `json:"reason"`
	Actor     string  `json:"actor"`
	ExpiresAt *moment `json:"expires_at"` // null: it does not end
}

// overrides is a file of decisions.
type overrides struct {
	Overrides []override `json:"overrides"`
}

func (a *API) exportQuarantine(ctx context.Context, c *call) (any, error) {
	_, repo, err := a.namedTests(ctx, c)
	if err != nil {
		return nil, err
	}
	out := overrides{Overrides: []override{}}
	for f := (flaky.Filter{Show: flaky.ShowDecided}); ; {
		tests, err := a.tests.ListTests(ctx, repo.ID, f, 1000)
		if err != nil {
			return nil, fmt.Errorf("list what was decided about tests: %w", err)
		}
		for i := range tests {
			t := &tests[i]
			if o := t.Override; o.At(c.now) == o.Setting { // what has ended is no decision any more
				out.Overrides = append(out.Overrides, override{t.ID.String(), t.Name, t.Parent, t.File, t.Classname, t.Variant,
					string(o.Setting), o.Owner, o.Reason, o.Actor, momentOrNull(o.Expires)})
			}
		}
		if len(tests) < 1000 {
			return out, nil
		}
		f.After = flaky.MarkOf(&tests[len(tests)-1])
	}
}

// imported is what became of a file of decisions.
type imported struct {
	Changed int        `json:"changed"`
	Unknown []override `json:"unknown"` // the repository has no such test
}

func (a *API) importQuarantine(ctx context.Context, c *call) (any, error) {
	var p testPlace
	var given []override
	var wanted []flaky.TestCase
	if err := decode(c.body, append(p.fields(), required("overrides", decisions(c.now, actorOf(c), &given, &wanted)))...); err != nil {
		return nil, err
	}
	repo, err := a.repository(ctx, c, &p)
	if err != nil {
		return nil, err
	}
	changed, missing, err := a.tests.ImportOverrides(ctx, repo.ID, wanted, c.now)
	if err != nil {
		return nil, fmt.Errorf("import what was decided about tests: %w", err)
	}
	out := imported{Changed: changed, Unknown: []override{}}
	for _, i := range missing {
		out.Unknown = append(out.Unknown, given[i])
	}
	return out, nil
}

// decisions reads a file of decisions. Who imports it has decided.
func decisions(now time.Time, actor string, given *[]override, to *[]flaky.TestCase) func(*form, value) {
	return func(f *form, v value) {
		f.array(v, "objects", maxOverrides, func(item value) {
			var o override
			var id uuid.UUID
			var setting flaky.Setting
			var expires *time.Time
			before := len(f.problems)
			f.object(item, []field{
				optional("test_id", testCaseID(&id)), optional("name", anyText(&o.Name)), optional("parent", anyText(&o.Parent)), optional("file", anyText(&o.File)),
				optional("classname", anyText(&o.Classname)), optional("variant", anyText(&o.Variant)), required("setting", quarantineSetting(&setting)),
				optional("owner", anyTextUpTo(&o.Owner, maxReason)), optional("reason", anyTextUpTo(&o.Reason, maxReason)), optional("expires_at", instant(&expires)),
			})
			if len(f.problems) > before {
				return
			}
			decided := flaky.Override{Setting: setting, Owner: o.Owner, Reason: o.Reason, Expires: orZero(expires), Actor: actor}
			if id == uuid.Nil && o.Name == "" {
				f.refuse(item, "must have a test_id or a name")
			}
			if problem := decided.Check(now); problem != nil {
				f.note(item.path() + ": " + strings.ReplaceAll(problem.Error(), "\n", "; ") + ".")
			}
			o.TestID, o.Setting, o.Actor, o.ExpiresAt = id.String(), string(setting), actor, momentOrNull(decided.Expires)
			if id == uuid.Nil {
				o.TestID = ""
			}
			*given = append(*given, o)
			*to = append(*to, flaky.TestCase{
				Test: flaky.Test{Name: flaky.Shown(o.Name), Parent: flaky.Shown(o.Parent), File: flaky.Shown(o.File), Classname: flaky.Shown(o.Classname), Variant: flaky.Shown(o.Variant)},
				ID:   id, Override: decided,
			})
		})
	}
}
