package flaky

import (
	"errors"
	"strings"
	"time"
)

// Rules is what a repository wants of quarantine.
type Rules struct {
	// Automatic lets the failures of tests with enough evidence be excused. Off,
	// only what people set counts.
	Automatic bool `json:"automatic"`
}

// Setting is what a person decided about one test.
type Setting string

// The settings. The first is what a test has that nobody decided about; the
// names are those of the API.
const (
	Auto   Setting = "AUTO_QUARANTINE"
	Always Setting = "ALWAYS_QUARANTINE"
	Never  Setting = "NEVER_QUARANTINE"
)

// ParseSetting reads a setting in any case; "" and "unset" are Auto.
func ParseSetting(text string) (Setting, bool) {
	switch s := Setting(strings.ToUpper(text)); s {
	case Auto, Always, Never:
		return s, true
	case "", "UNSET":
		return Auto, true
	}
	return "", false
}

// Override is a person's decision about one test. The zero value is none.
type Override struct {
	Setting Setting
	Owner   string // who will repair the test
	Reason  string
	Expires time.Time // zero for Auto and Never: they do not end
	Actor   string    // who decided
}

// LongestOverride bounds how long a test may be excused by a person's word.
const LongestOverride = 180 * 24 * time.Hour

// Check reports what is wrong with an override that somebody wants to set: a
// test whose failures are always excused has somebody who will repair it, a
// reason and an end.
func (o Override) Check(now time.Time) error {
	if o.Setting != Always {
		if !o.Expires.IsZero() {
			return errors.New("expires_at: only ALWAYS_QUARANTINE has an end")
		}
		return nil
	}
	var wrong []error
	if strings.TrimSpace(o.Owner) == "" {
		wrong = append(wrong, errors.New("owner: say who will repair the test"))
	}
	if strings.TrimSpace(o.Reason) == "" {
		wrong = append(wrong, errors.New("reason: say why its failures may be ignored"))
	}
	switch {
	case o.Expires.IsZero():
		wrong = append(wrong, errors.New("expires_at: say until when its failures may be ignored"))
	case !o.Expires.After(now):
		wrong = append(wrong, errors.New("expires_at: is in the past"))
	case o.Expires.Sub(now) > LongestOverride:
		wrong = append(wrong, errors.New("expires_at: at most 180 days from now"))
	}
	return errors.Join(wrong...)
}

// At is the setting that counts at a moment: an override that has ended is
// none.
func (o Override) At(now time.Time) Setting {
	if o.Setting == "" || o.Setting == Always && !o.Expires.After(now) {
		return Auto
	}
	return o.Setting
}

// QuarantineCode says why a test is quarantined or not. The codes are part of
// the API and of the audit trail.
type QuarantineCode string

// The codes.
const (
	SetAlways       QuarantineCode = "SET_ALWAYS"       // on: somebody decided
	SetNever        QuarantineCode = "SET_NEVER"        // off: somebody decided
	AutomaticOn     QuarantineCode = "AUTOMATIC"        // on: enough evidence
	SuspendedBroken QuarantineCode = "SUSPENDED_BROKEN" // off: flaky, and now it always fails
	RepositoryOff   QuarantineCode = "REPOSITORY_OFF"   // off: the repository wants none
	NotEnough       QuarantineCode = "NOT_ENOUGH_EVIDENCE"
	NotFlaky        QuarantineCode = "NOT_FLAKY"
	NewFailure      QuarantineCode = "NEW_FAILURE" // this failure blocks: nobody has seen it before
	KnownFailure    QuarantineCode = "KNOWN_FAILURE"
)

// Quarantine is whether failures of a test are excused.
type Quarantine struct {
	On      bool
	Setting Setting
	Code    QuarantineCode
}

// Decide says whether failures of a test are excused at a moment. A test that is
// broken is never quarantined automatically: excusing it would hide that
// something does not work.
func (r Rules) Decide(h *History, o Override, now time.Time) Quarantine {
	q := Quarantine{Setting: o.At(now)}
	switch {
	case q.Setting == Always:
		q.On, q.Code = true, SetAlways
	case q.Setting == Never:
		q.Code = SetNever
	case !r.Automatic:
		q.Code = RepositoryOff
	case h == nil || !h.Flaky:
		q.Code = NotFlaky
	case !h.Quarantined:
		q.Code = NotEnough
	case h.Broken:
		q.Code = SuspendedBroken
	default:
		q.On, q.Code = true, AutomaticOn
	}
	return q
}

// Excuses says whether one failure of a test is excused, and why. Automatic
// quarantine excuses only failures that evidence has shown to be flakiness; one
// that nobody has seen before may be a bug and blocks. What a person set to
// ALWAYS_QUARANTINE excuses every failure until it ends.
func (q Quarantine) Excuses(h *History, f Fingerprint, now time.Time) (bool, QuarantineCode) {
	switch {
	case !q.On || q.Setting == Always:
		return q.On, q.Code
	case h.Knows(f, now):
		return true, KnownFailure
	}
	return false, NewFailure
}
