package flaky

import (
	"strings"
	"testing"
	"time"
)

func TestWhatIsQuarantined(t *testing.T) {
	t.Parallel()
	now := monday
	always := Override{Setting: Always, Owner: "ann", Reason: "known bug", Expires: now.Add(time.Hour)}
	ended := always
	ended.Expires = now
	on, off := Rules{Automatic: true}, Rules{}
	flaky := &History{Flaky: true, Quarantined: true}
	for name, c := range map[string]struct {
		rules    Rules
		history  *History
		override Override
		want     Quarantine
	}{
		"enough evidence":                {on, flaky, Override{}, Quarantine{true, Auto, AutomaticOn}},
		"the repository wants none":      {off, flaky, Override{}, Quarantine{false, Auto, RepositoryOff}},
		"flaky, not enough evidence":     {on, &History{Flaky: true}, Override{}, Quarantine{false, Auto, NotEnough}},
		"never failed":                   {on, nil, Override{}, Quarantine{false, Auto, NotFlaky}},
		"healthy":                        {on, &History{}, Override{}, Quarantine{false, Auto, NotFlaky}},
		"flaky, and now broken":          {on, &History{Flaky: true, Quarantined: true, Broken: true}, Override{}, Quarantine{false, Auto, SuspendedBroken}},
		"broken":                         {on, &History{Broken: true}, Override{}, Quarantine{false, Auto, NotFlaky}},
		"somebody said always":           {off, nil, always, Quarantine{true, Always, SetAlways}},
		"somebody said always, broken":   {on, &History{Broken: true}, always, Quarantine{true, Always, SetAlways}},
		"always has ended":               {on, &History{}, ended, Quarantine{false, Auto, NotFlaky}},
		"always has ended, still flaky":  {on, flaky, ended, Quarantine{true, Auto, AutomaticOn}},
		"somebody said never":            {on, flaky, Override{Setting: Never}, Quarantine{false, Never, SetNever}},
		"somebody took the decision off": {on, flaky, Override{Setting: Auto}, Quarantine{true, Auto, AutomaticOn}},
	} {
		if got := c.rules.Decide(c.history, c.override, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A quarantined test that fails in a new way blocks, unless a person decided.
func TestNewFailuresBlock(t *testing.T) {
	t.Parallel()
	h := &History{Known: []Known{{Fingerprint: 7, Last: monday}}}
	auto, always := Quarantine{true, Auto, AutomaticOn}, Quarantine{true, Always, SetAlways}
	for _, c := range []struct {
		q     Quarantine
		print Fingerprint
		now   time.Time
		want  bool
		code  QuarantineCode
	}{
		{auto, 7, monday, true, KnownFailure}, {auto, 8, monday, false, NewFailure}, {auto, 0, monday, false, NewFailure},
		{auto, 7, monday.Add(KnownFor + 1), false, NewFailure}, {always, 8, monday, true, SetAlways},
		{Quarantine{false, Never, SetNever}, 7, monday, false, SetNever},
	} {
		if got, code := c.q.Excuses(h, c.print, c.now); got != c.want || code != c.code {
			t.Errorf("%v fails with %d: %t %s", c.q, c.print, got, code)
		}
	}
}

func TestAnOverrideHasAnOwnerAReasonAndAnEnd(t *testing.T) {
	t.Parallel()
	good := Override{Setting: Always, Owner: "ann", Reason: "waits for upstream", Expires: monday.AddDate(0, 1, 0)}
	for _, c := range []struct {
		change func(*Override)
		wrong  string
	}{
		{func(*Override) {}, ""},
		{func(o *Override) { o.Owner = " " }, "owner"},
		{func(o *Override) { o.Reason = "" }, "reason"},
		{func(o *Override) { o.Expires = time.Time{} }, "until when"},
		{func(o *Override) { o.Expires = monday }, "past"},
		{func(o *Override) { o.Expires = monday.AddDate(1, 0, 0) }, "180 days"},
		{func(o *Override) { *o = Override{Setting: Never} }, ""},
		{func(o *Override) { o.Setting = Never }, "only ALWAYS"},
	} {
		o := good
		c.change(&o)
		err := o.Check(monday)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", o, err, c.wrong)
		}
	}
	for text, want := range map[string]Setting{"always_quarantine": Always, "NEVER_QUARANTINE": Never, "": Auto, "unset": Auto, "Auto_Quarantine": Auto} {
		if got, ok := ParseSetting(text); !ok || got != want {
			t.Errorf("%q is %q, %t", text, got, ok)
		}
	}
	if _, ok := ParseSetting("sometimes"); ok {
		t.Error("any word is a setting")
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	excused := []Failing{{Name: "a", Excused: true}, {Name: "b", Excused: true}}
	mixed := []Failing{{Name: "a", Excused: true}, {Name: "b"}}
	cut := []string{"junit.xml is cut off"}
	for name, c := range map[string]struct {
		job  Job
		exit int
		code VerdictCode
	}{
		"nothing failed":                              {Job{HasExitCode: true}, 0, AllPassed},
		"all that failed is quarantined":              {Job{1, true, excused, nil}, 0, AllExcused},
		"and nobody gave an exit code":                {Job{0, false, excused, nil}, 0, AllExcused},
		"one is not":                                  {Job{3, true, mixed, nil}, 3, TestsFailed},
		"one is not, and nobody gave an exit code":    {Job{0, false, mixed, nil}, 1, TestsFailed},
		"one is not, the command does not mind":       {Job{0, true, mixed, nil}, 0, TestsFailed},
		"quarantined, but a report is cut off":        {Job{1, true, excused, cut}, 1, Incomplete},
		"one is not, nobody minds, one is cut off":    {Job{0, true, mixed, cut}, 1, TestsFailed},
		"nothing failed, but a report is cut off":     {Job{0, true, nil, cut}, 1, Incomplete},
		"quarantined, and then the runner was killed": {Job{137, true, excused, nil}, 137, Crashed},
		"quarantined, and then time was up":           {Job{124, true, excused, nil}, 124, Crashed},
		"the command failed and no test did":          {Job{2, true, nil, nil}, 2, Unexplained},
		"killed before any test":                      {Job{139, true, nil, nil}, 139, Crashed},
	} {
		v := Judge(c.job)
		if v.ExitCode != c.exit || v.Code != c.code || v.Green() != (c.exit == 0) || !strings.HasSuffix(v.Text, ".") {
			t.Errorf("%s: %+v, want exit %d, %s", name, v, c.exit, c.code)
		}
	}
}
