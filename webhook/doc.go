// Package webhook receives what the Git host tells us: it verifies a
// delivery's signature, translates its payload into facts, has them stored,
// and answers. It decides nothing and asks nobody.
//
//	POST /webhook ─► read ≤ 25 MiB ─► verify ─► parse ─► translate ─► Store.Receive ─► 202
//
// Translation is pure and trusts nothing: every object of a payload may be
// missing, every text is bounded and cleaned, commits and branch names are
// checked before they become part of a fact. A payload that does not decode
// raises a doubt about what it names, and one that cannot be used at all is
// counted; both are answered with 202, because the host can do nothing about
// it: webhooks are hints, and a resync finds what a lost one would have said.
//
// # What counts
//
//   - Reports of CI are matched by commit. The pull requests that a check names
//     are never looked at: for a fork the list is empty, and it can name pull
//     requests of another repository.
//   - What our own App sends is no command, and its own check runs and suites
//     are no reports.
//   - A person whose account is gone is "ghost", as the host itself shows it.
package webhook
