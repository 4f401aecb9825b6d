package web

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"signalbox/account"
	"signalbox/flaky"
)

// The part of a test's page about its quarantine: whether its failures block,
// and the form in which a person decides about that.

const (
	longestOwner = 200 // bytes
	longestWhy   = 2000
	defaultDays  = 30 // of a quarantine that somebody sets
)

// quarantineForm is what a person's decision looks like before it is made.
type quarantineForm struct {
	Setting       flaky.Setting
	Owner, Reason string
	Until         string // a date
	Least, Most   string
	// How long the texts may be, in bytes. A browser counts characters.
	LongestOwner, LongestWhy int
}

// quarantineText says whether failures of the test block, and why.
func quarantineText(k *knownTest, now time.Time) string {
	o := k.Override
	switch setting := o.At(now); {
	case setting == flaky.Always:
		return fmt.Sprintf("Its failures are excused until %s: %s decided so.", o.Expires.UTC().Format("2 January 2006"), cmp.Or(o.Actor, "somebody"))
	case setting == flaky.Never:
		return fmt.Sprintf("Its failures always block: %s decided so.", cmp.Or(o.Actor, "somebody"))
	case !k.QuarantinedAt.IsZero():
		return "Its failures are excused, except those of a kind that it never had before: automatic quarantine."
	case !k.counts.Automatic:
		return "Its failures block: automatic quarantine is off for this repository."
	case k.Status == flaky.Broken:
		return "Its failures block: a broken test is never quarantined automatically."
	case k.Status == flaky.Flaky:
		return fmt.Sprintf("Its failures block: automatic quarantine begins at a score of %v.", flaky.QuarantineScore)
	}
	return "Its failures block, as those of any test."
}

// quarantineLook makes what somebody should know stand out: that failures are
// excused, and that those of a test that is not healthy block.
func quarantineLook(k *knownTest, now time.Time) string {
	switch {
	case !k.QuarantinedAt.IsZero():
		return "note"
	case k.Status != flaky.Healthy || k.Override.At(now) == flaky.Never:
		return "why"
	}
	return "dim"
}

// formOf is the form as it stands before anybody fills it in: with the decision
// that counts, if there is one.
func formOf(o flaky.Override, now time.Time) quarantineForm {
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	f := quarantineForm{
		Setting: o.At(now), Owner: o.Owner, Reason: o.Reason, Until: day(now.AddDate(0, 0, defaultDays)),
		LongestOwner: longestOwner, LongestWhy: longestWhy,
		Least: day(now), Most: day(now.Add(flaky.LongestOverride - 24*time.Hour)), // the last day counts to its end
	}
	if f.Setting == flaky.Always {
		f.Until = day(o.Expires.Add(-time.Second))
	}
	return f
}

// setQuarantine takes a person's decision about a test.
func (h *Handler) setQuarantine(r *http.Request) (string, error) {
	repo, err := h.repoNamed(r)
	if err != nil {
		return "", err
	}
	id, err := testOf(r)
	if err != nil {
		return "", err
	}
	page := TestURL("", repo, id.String())
	if err := h.need(r.Context(), repo, account.WriteRight); err != nil {
		return "", returning(err, page)
	}
	now := h.clock().UTC()
	o, problem := overrideIn(r, now)
	if problem != "" {
		return "", refusal{http.StatusBadRequest, problem, page}
	}
	o.Actor = account.AuthorOf(authored(r.Context())).String()
	if _, err := h.store.SetQuarantine(authored(r.Context()), repo.ID, id, o, now); err != nil {
		return "", orNoTest(err, "set the quarantine of test "+id.String())
	}
	return page + "?done=decided", nil
}

// overrideIn reads the form of a decision; problem says what is wrong with it.
func overrideIn(r *http.Request, now time.Time) (o flaky.Override, problem string) {
	setting, ok := flaky.ParseSetting(r.PostForm.Get("setting"))
	if !ok || r.PostForm.Get("setting") == "" {
		return o, "Choose whether its failures are excused as the evidence says, always, or never."
	}
	o = flaky.Override{Setting: setting, Reason: strings.TrimSpace(r.PostForm.Get("reason"))}
	if setting == flaky.Always {
		o.Owner = strings.TrimSpace(r.PostForm.Get("owner"))
		if day, err := time.Parse(time.DateOnly, r.PostForm.Get("until")); err == nil {
			o.Expires = day.AddDate(0, 0, 1) // that day, too
		}
	}
	if len(o.Owner) > longestOwner || len(o.Reason) > longestWhy {
		return o, fmt.Sprintf("The owner can have %d bytes, the reason %d.", longestOwner, longestWhy)
	}
	if err := o.Check(now); err != nil {
		var texts []string
		for _, line := range strings.Split(err.Error(), "\n") { // "owner: say who …"
			field, text, _ := strings.Cut(line, ": ")
			texts = append(texts, fieldNames[field]+": "+text+".")
		}
		return o, strings.Join(texts, " ")
	}
	return o, ""
}

// fieldNames are what the form calls the parts of a decision.
var fieldNames = map[string]string{"owner": "Who repairs it", "reason": "Reason", "expires_at": "Until"}
