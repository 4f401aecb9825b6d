package webhook

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/queue"
)

var testPrefixes = []string{"/signalbox", "/trunk", "@signalbox"}

func merge(change func(*queue.Command)) queue.Command {
	c := queue.Command{Verb: queue.VerbMerge}
	if change != nil {
		change(&c)
	}
	return c
}

func priority(n int64) func(*queue.Command) {
	return func(c *queue.Command) { c.Priority, c.PriorityGiven = n, true }
}

func TestCommandsThatAreFollowed(t *testing.T) {
	t.Parallel()
	plain := merge(nil)
	tests := []struct {
		name, body string
		want       queue.Command
	}{
		{"short", "/merge", plain},
		{"long", "/signalbox merge", plain},
		{"with another prefix", "/trunk merge", plain},
		{"in any case", "/Merge", plain},
		{"long in any case", "/SignalBox MERGE", plain},
		{"with odd spacing", "  /signalbox \t  merge  ", plain},
		{"addressed as people address bots", "@signalbox: merge", plain},
		{"with carriage returns", "LGTM\r\n\r\n/merge\r\nthanks\r\n", plain},
		{"after a quote", "> please merge\n\n/merge", plain},
		{"directly below a quote", "> please merge\n/merge", plain},
		{"after a code block", "```\nx\n```\n/merge", plain},
		{"after a longer fence", "````\n```\n/cancel\n````\n/merge", plain},
		{"after inline code that looks like a fence", "```x``` y\n/merge", plain},
		{"after a comment", "<!-- /cancel -->\n/merge", plain},
		{"the same twice", "/merge\n/signalbox merge\n/MERGE", plain},
		{"urgent", "/merge -p urgent", merge(priority(0))},
		{"priority by name in any case", "/merge --priority=HIGH", merge(priority(10))},
		{"priority after a space", "/merge --priority low", merge(priority(200))},
		{"priority after an equals sign", "/merge -p=17", merge(priority(17))},
		{"priority 255", "/merge -p 255", merge(priority(255))},
		{"no batch", "/merge --no-batch", merge(func(c *queue.Command) { c.NoBatch = true })},
		{"everything", "/signalbox merge --force -p 3 --no-batch", merge(func(c *queue.Command) {
			c.Priority, c.PriorityGiven, c.NoBatch, c.Force = 3, true, true, true
		})},
		{"stack", "/signalbox stack", queue.Command{Verb: queue.VerbStack}},
		{"stack with everything", `/signalbox stack -p high --no-batch -t "Add the signal, \ in three steps"`, queue.Command{
			Verb: queue.VerbStack, Priority: 10, PriorityGiven: true, NoBatch: true, Title: `Add the signal, \ in three steps`}},
		{"title after an equals sign", `/signalbox stack --title="Add it"`, queue.Command{Verb: queue.VerbStack, Title: "Add it"}},
		{"title in the marks of a phone", "/signalbox stack -t \u201cAdd it\u201d", queue.Command{Verb: queue.VerbStack, Title: "Add it"}},
		{"title of one word", "/signalbox stack -t Signals", queue.Command{Verb: queue.VerbStack, Title: "Signals"}},
		{"cancel", "/cancel", queue.Command{Verb: queue.VerbCancel}},
		{"long cancel", "/signalbox cancel", queue.Command{Verb: queue.VerbCancel}},
		{"restart", "/signalbox restart", queue.Command{Verb: queue.VerbRestart}},
		{"status", "/signalbox status", queue.Command{Verb: queue.VerbStatus}},
		{"help", "/signalbox help", queue.Command{Verb: queue.VerbHelp}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := ParseCommand(tt.body, testPrefixes)
			if !ok {
				t.Fatalf("no command in %q", tt.body)
			}
			got.Text = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", tt.body, diff)
			}
		})
	}
}

func TestCommandsThatGetAUsageReply(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, problem string }{
		{"trailing words", "/merge please", "`please` is not an option of `merge`."},
		{"an unknown flag", "/merge --fast", "`--fast` is not an option of `merge`."},
		{"priority twice", "/merge -p urgent -p low", "`-p` is given twice."},
		{"the same priority twice", "/merge -p low --priority=low", "`--priority` is given twice."},
		{"an empty priority", "/merge --priority=", "(nothing) is not a priority: use urgent, high, medium, low, lowest, or a number from 0 to 255."},
		{"a priority that is missing", "/merge -p", "(nothing) is not a priority: use urgent, high, medium, low, lowest, or a number from 0 to 255."},
		{"a priority over nine thousand", "/merge --priority=9001", "`9001` is not a priority: use urgent, high, medium, low, lowest, or a number from 0 to 255."},
		{"a negative priority", "/merge -p -1", "`-1` is not a priority: use urgent, high, medium, low, lowest, or a number from 0 to 255."},
		{"a flag in the place of a value", "/merge -p --force", "`--force` is not a priority: use urgent, high, medium, low, lowest, or a number from 0 to 255."},
		{"a value where none belongs", "/merge --force=no", "`--force` takes no value."},
		{"a flag twice", "/merge --force --force", "`--force` is given twice."},
		{"a stack by force", "/signalbox stack --force", "`--force` is not an option of `stack`."},
		{"a title of a pull request", "/merge -t Signals", "`-t` is not an option of `merge`."},
		{"a title that is missing", "/signalbox stack -t", "`-t` needs a title after it."},
		{"an empty title", `/signalbox stack --title=" "`, "`--title` needs a title after it."},
		{"a title without marks", "/signalbox stack -t Add it", "`it` is not an option of `stack`."},
		{"a title that is not closed", `/signalbox stack -t "Add it`, "A quotation mark is not closed in `/signalbox stack -t \"Add it`."},
		{"words after cancel", "/cancel now", "`cancel` takes nothing after it, but `now` is there."},
		{"a prefix alone", "/signalbox", "`/signalbox` does not say what to do."},
		{"an unknown verb", "/trunk launch", "`launch` is not a command."},
		{"two that differ", "/merge\n/cancel", "The comment has more than one command (`/merge` and `/cancel`), so none was followed."},
		{"two priorities on two lines", "/merge\n/merge -p high", "The comment has more than one command (`/merge` and `/merge -p high`), so none was followed."},
		{"a good and a bad one", "/merge\n/merge please", "The comment has more than one command (`/merge` and `/merge please`), so none was followed."},
		{"a mention in backticks", "/merge `@everyone`", "`@everyone` is not an option of `merge`."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := ParseCommand(tt.body, testPrefixes)
			if !ok || got.Verb != queue.VerbInvalid {
				t.Fatalf("%q is %+v, want it invalid", tt.body, got)
			}
			if got.Problem != tt.problem {
				t.Errorf("%q: problem is\n%s\nwant\n%s", tt.body, got.Problem, tt.problem)
			}
		})
	}
}

func TestTextsThatAreNoCommands(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing":                         "",
		"spaces":                          " \t\r\n  ",
		"in a sentence":                   "Please /merge this",
		"a word that begins like one":     "/merger\n/merge-base main\n/mergequeue",
		"a path":                          "/merge/queue",
		"in quotation marks":              `"/merge"`,
		"in a quote":                      "> /merge",
		"in a quote of a quote":           "  >> /merge",
		"in inline code":                  "`/merge`",
		"in a fenced block":               "```\n/merge\n```",
		"in a block with a language":      "```sh\n/merge\n```",
		"in a block of tildes":            "~~~\n/merge\n~~~",
		"in a block that never ends":      "```\n/merge",
		"in a block with a shorter fence": "````\n```\n/merge\n````",
		"in a block inside a list":        "- ```\n  /merge\n  ```",
		"in a block in a numbered list":   "1. ```\n   /merge\n   ```",
		"in an indented block":            "    /merge",
		"behind a tab":                    "\t/merge",
		"behind spaces and a tab":         "  \t/merge",
		"as a list item":                  "- /merge",
		"in an HTML comment":              "<!-- /merge -->",
		"in a long HTML comment":          "<!--\n/merge\n-->",
		"another bot's prefix":            "/lgtm\n/hold",
		"a prefix inside a word":          "/signalboxes merge",
		"bold":                            "**/merge**",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := ParseCommand(body, testPrefixes); ok {
				t.Errorf("%q is %+v", body, got)
			}
		})
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, body := range []string{"/merge -p high", "> /merge", "```\n/merge\n```", "/signalbox\x00merge", "/merge ```@x```", "- 1. ```\n/cancel", "<!-- --> /merge <!--"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c, ok := ParseCommand(body, testPrefixes)
		if again, _ := ParseCommand(body, testPrefixes); again != c {
			t.Errorf("two answers for %q: %+v, %+v", body, c, again)
		}
		if !ok {
			return
		}
		if (c.Verb == queue.VerbInvalid) != (c.Problem != "") {
			t.Errorf("%q: %+v", body, c)
		}
		if utf8.RuneCountInString(c.Text) > maxCommand || utf8.RuneCountInString(c.Problem) > 500 {
			t.Errorf("%q: the texts are not bounded", body)
		}
		if strings.ContainsAny(c.Text+c.Problem, "\x00\r\n") || strings.Count(c.Problem, "`")%2 != 0 {
			t.Errorf("%q: the texts are not inert: %+v", body, c)
		}
		if c.Priority < 0 || c.Priority > 255 {
			t.Errorf("%q: priority %d", body, c.Priority)
		}
		MergeTitle(body)
	})
}
