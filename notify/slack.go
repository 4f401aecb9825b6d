package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackutilsx"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// Every text that people read in Slack is made in this file. Whatever a pull
// request, a person or a test says in one is escaped, so that it can mention
// nobody and link nowhere; and it is cut, because a message can be read at a
// glance or not at all.

// maxQuoted bounds what a message quotes, in bytes.
const maxQuoted = 300

// maxListed is how many pull requests of a batch, or changes of settings, a
// message lists.
const maxListed = 10

// slackMessage is what an incoming webhook of Slack is sent.
func (s *Service) slackMessage(d account.Delivery) ([]byte, error) {
	h, err := read(d)
	if err != nil {
		return nil, err
	}
	var said text
	switch {
	case h.ping != nil:
		said = text{emoji: ":wave:", line: quoted(h.ping.Message)}
	case h.test != nil:
		said = s.sayTest(h.test)
	default:
		said = s.sayQueue(h.queue)
	}
	line := said.emoji + " " + said.line
	blocks := []slack.Block{slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, line, false, true), nil, nil)}
	if said.detail != "" {
		blocks = append(blocks, slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, said.detail, false, true)))
	}
	no := false
	out, err := json.Marshal(slack.WebhookMessage{Text: line, Blocks: &slack.Blocks{BlockSet: blocks}, UnfurlLinks: &no, UnfurlMedia: &no})
	if err != nil {
		return nil, fmt.Errorf("write a message about %s: %w", d.Type, err)
	}
	return out, nil
}

// text is a message: a line, and what explains it.
type text struct{ emoji, line, detail string }

func (s *Service) sayQueue(e *queue.Event) text {
	where := link(s.links.Queue(e.Repo, e.Branch), e.Repo.Owner+"/"+e.Repo.Name+" "+e.Branch)
	switch e.Type {
	case queue.QueueStateChanged:
		line := fmt.Sprintf("The queue %s is %s now", where, stateWords[e.To])
		if e.Message != "" {
			return text{":rotating_light:", line + ".", quoted(e.Message)}
		}
		return text{":vertical_traffic_light:", line + strings.Replace(by(e), " ", ", ", 1) + ".", ""}
	case queue.QueueSettingsChanged:
		changes := listed(len(e.Changes), func(i int) string {
			c := e.Changes[i]
			return fmt.Sprintf("%s: %s → %s", quoted(c.Name), orDash(c.From), orDash(c.To))
		})
		return text{":gear:", fmt.Sprintf("Settings of the queue %s have been changed%s.", where, by(e)), changes}
	}
	if strings.HasPrefix(string(e.Type), "pull_request_batch.") {
		return s.sayBatch(e, where)
	}
	pr := s.pr(e, &e.Entries[0])
	t := text{emoji: emojis[e.To], detail: quoted(e.Message)}
	switch e.Type {
	case queue.PullRequestSubmitted:
		t.line = pr + " was submitted to " + where + by(e) + "."
	case queue.PullRequestQueued:
		t.line = pr + " is queued in " + where + "."
		if e.From != string(queue.NotReady) {
			t.emoji, t.line = ":repeat:", pr+" is back in line in "+where+"."
		}
	case queue.PullRequestTesting:
		t.line = pr + " is being tested in " + where + "."
	case queue.PullRequestTestsPassed:
		t.line = "The tests of " + pr + " passed in " + where + "."
	case queue.PullRequestPendingFailure:
		t.line = "The tests of " + pr + " failed in " + where + ". Whose failure it is, is not certain yet."
	case queue.PullRequestFailed:
		t.line = pr + " failed and left " + where + "."
	case queue.PullRequestCanceled:
		t.line = pr + " was taken out of " + where + by(e) + "."
	case queue.PullRequestMerged:
		t.line = pr + " has landed on " + where + "."
	}
	return t
}

func (s *Service) sayBatch(e *queue.Event, where string) text {
	batch := fmt.Sprintf("of %d pull requests in %s", len(e.Entries), where)
	run := link(s.links.Run(e.Repo, e.Branch, e.Run), "batch")
	t := text{emoji: emojis[e.To], detail: listed(len(e.Entries), func(i int) string { return s.pr(e, &e.Entries[i]) })}
	switch e.Type {
	case queue.BatchTesting:
		t.line = "A " + run + " " + batch + " is being tested."
	case queue.BatchTestsPassed:
		t.line = "The tests of a " + run + " " + batch + " passed."
	case queue.BatchPendingFailure:
		t.line = "The tests of a " + run + " " + batch + " failed. Whose failure it is, is not certain yet."
	case queue.BatchFailed:
		t.emoji, t.line = ":x:", "A "+run+" "+batch+" failed. It is split to find out which one is to blame."
	case queue.BatchRestarted:
		t.emoji, t.line = ":repeat:", "A "+run+" "+batch+" will be tested again: "+quoted(e.Message)
	case queue.BatchMerged:
		t.line = "A " + run + " " + batch + " has landed."
	}
	return t
}

func (s *Service) sayTest(e *flaky.Event) text {
	test := "*" + quoted(e.Shown()) + "* in " + quoted(e.Owner+"/"+e.Repo)
	detail := quoted(e.Change.Reason)
	if len(e.Codeowners) > 0 {
		detail = strings.TrimSpace(detail + "\nOwners: " + quoted(strings.Join(e.Codeowners, " ")))
	}
	if e.Type == flaky.StatusChanged {
		switch flaky.Status(e.Change.After) {
		case flaky.Flaky:
			return text{":game_die:", "The test " + test + " is flaky.", detail}
		case flaky.Broken:
			return text{":boom:", "The test " + test + " is broken.", detail}
		default:
			return text{":sparkles:", "The test " + test + " is healthy again.", detail}
		}
	}
	was, is := e.Change.Before == "on", e.Change.After == "on"
	who := ""
	if e.Change.Actor != "" {
		who = ", by " + quoted(e.Change.Actor)
	}
	switch {
	case is && !was:
		return text{":mute:", "Failures of the test " + test + " are excused from now on" + who + ".", detail}
	case was && !is:
		return text{":loud_sound:", "Failures of the test " + test + " count again" + who + ".", detail}
	default:
		return text{":memo:", "The quarantine of the test " + test + " was set to " + quoted(string(e.Setting)) + who + ".", detail}
	}
}

// emojis stand before messages by the state that pull requests came into.
var emojis = map[string]string{
	string(queue.NotReady): ":inbox_tray:", string(queue.Pending): ":hourglass_flowing_sand:", string(queue.Testing): ":test_tube:",
	string(queue.TestsPassed): ":white_check_mark:", string(queue.PendingFailure): ":warning:", string(queue.Failed): ":x:",
	string(queue.Cancelled): ":no_entry_sign:", string(queue.Merged): ":tada:",
}

// stateWords are the states of a queue as people say them.
var stateWords = map[string]string{
	string(queue.Running): "running", string(queue.Paused): "paused", string(queue.Draining): "draining", string(queue.SwitchingModes): "switching modes",
}

// pr is a pull request with a link to its page.
func (s *Service) pr(e *queue.Event, p *queue.EventEntry) string {
	name := fmt.Sprintf("#%d", p.Number)
	if p.Title != "" {
		name += " " + p.Title
	}
	return "*" + link(s.links.PullRequest(e.Repo, e.Branch, p.Number), name) + "*"
}

// by says who asked for it, to end a sentence with.
func by(e *queue.Event) string {
	switch {
	case e.Actor.Login != "":
		return " by " + quoted(e.Actor.Login)
	case e.Token != "":
		return " by the API token " + quoted(e.Token)
	}
	return ""
}

func orDash(text string) string {
	if text == "" {
		return "none"
	}
	return quoted(text)
}

// listed is a list of n things, one on a line, that is cut after a few.
func listed(n int, line func(i int) string) string {
	var lines []string
	for i := range min(n, maxListed) {
		lines = append(lines, line(i))
	}
	if n > maxListed {
		lines = append(lines, fmt.Sprintf("and %d more", n-maxListed))
	}
	return strings.Join(lines, "\n")
}

// link is a link in Slack's markup. Its text must not end it.
func link(address, name string) string {
	if address == "" {
		return quoted(name)
	}
	return "<" + slackutilsx.EscapeMessage(strings.NewReplacer("|", "%7C", " ", "%20").Replace(address)) + "|" + strings.ReplaceAll(quoted(name), "|", "¦") + ">"
}

// quoted makes a text one that is no markup in Slack: it says what it says, on
// one line. Stars and underscores may make it bold or slanted, no more.
func quoted(text string) string {
	return slackutilsx.EscapeMessage(clip(strings.Join(strings.Fields(printable(text)), " "), maxQuoted))
}

// printable leaves out what cannot be seen: control characters, and those that
// turn the direction of a text around.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, text)
}
