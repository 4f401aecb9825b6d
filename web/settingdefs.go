package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"signalbox/queue"
)

// Every setting of a queue, in words: what its page shows and takes.

// settingDef is one setting.
type settingDef struct {
	Name    string // in the API and the audit log
	Label   string
	Help    string
	Choices []choice // of a choice
	Kind    string   // number, switch, choice, text or lines
	Least   int64    // of a number
	// read is the present value as a form has it.
	read func(*queue.Queue) string
	// wish adds a value to a change, or says what is wrong with it.
	wish func(*queue.Change, string) error
}

// choice is a value to choose, with what it means.
type choice struct{ Value, Text string }

// settingGroup are settings that belong together.
type settingGroup struct {
	Title string
	Defs  []settingDef
}

func numberSetting(name, label, help string, least int64, read func(*queue.Queue) int64, field func(*queue.Change) **int64) settingDef {
	return settingDef{
		Name: name, Label: label, Help: help, Kind: "number", Least: least,
		read: func(q *queue.Queue) string { return strconv.FormatInt(read(q), 10) },
		wish: func(c *queue.Change, text string) error {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil || n < least || n > queue.MaxNumber {
				return fmt.Errorf("%s: give a whole number from %d to %d", label, least, queue.MaxNumber)
			}
			*field(c) = &n
			return nil
		},
	}
}

func switchSetting(name, label, help string, read func(*queue.Queue) bool, field func(*queue.Change) **bool) settingDef {
	return settingDef{
		Name: name, Label: label, Help: help, Kind: "switch",
		read: func(q *queue.Queue) string { return strconv.FormatBool(read(q)) },
		wish: func(c *queue.Change, text string) error {
			on := text == "true"
			*field(c) = &on
			return nil
		},
	}
}

func choiceSetting[T ~string](name, label, help string, choices []choice, read func(*queue.Queue) T, field func(*queue.Change) **T) settingDef {
	return settingDef{
		Name: name, Label: label, Help: help, Kind: "choice", Choices: choices,
		read: func(q *queue.Queue) string { return string(read(q)) },
		wish: func(c *queue.Change, text string) error {
			if !slices.ContainsFunc(choices, func(o choice) bool { return o.Value == text }) {
				return fmt.Errorf("%s: %q is not one of the choices", label, text)
			}
			value := T(text)
			*field(c) = &value
			return nil
		},
	}
}

// statusesSetting are the required statuses, one in a line.
func statusesSetting() settingDef {
	const label = "Required checks"
	return settingDef{
		Name: "requiredStatuses", Label: label, Kind: "lines",
		Help: "Names of the checks that must pass on the test branch, one in a line. Empty: those in the repository's configuration file, else those that branch protection and rulesets require.",
		read: func(q *queue.Queue) string { return strings.Join(q.RequiredStatuses, "\n") },
		wish: func(c *queue.Change, text string) error {
			names := []string{}
			for _, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
				name := strings.TrimSpace(line)
				switch {
				case name == "":
					continue
				case slices.Contains(names, name):
					return fmt.Errorf("%s: %q stands there twice", label, name)
				case !storable(name) || len(names) == 100:
					return fmt.Errorf("%s: give up to 100 names of up to 300 characters", label)
				}
				names = append(names, name)
			}
			c.RequiredStatuses = &names
			return nil
		},
	}
}

func labelSetting() settingDef {
	const label = "Label that queues"
	return settingDef{
		Name: "enqueueingLabel", Label: label, Help: "The label that submits a pull request, where labels are commands.", Kind: "text",
		read: func(q *queue.Queue) string { return q.EnqueueingLabel },
		wish: func(c *queue.Change, text string) error {
			text = strings.TrimSpace(text)
			if !storable(text) || len(text) > 50 {
				return fmt.Errorf("%s: give a label of 1 to 50 characters", label)
			}
			c.EnqueueingLabel = &text
			return nil
		},
	}
}

var (
	modeChoices    = []choice{{string(queue.Single), "single: one line, everybody behind everybody"}, {string(queue.Parallel), "parallel: lanes of those that share a target"}}
	methodChoices  = []choice{{string(queue.MergeCommit), "merge commit"}, {string(queue.Squash), "squash"}, {string(queue.Rebase), "rebase"}}
	landingChoices = []choice{{string(queue.LandExact), "exact: the tested commit is pushed"}, {string(queue.LandHost), "host: the host merges, and the trees are compared"}}
	directChoices  = []choice{{string(queue.DirectMergeOff), "off"}, {string(queue.DirectMergeAlways), "always"}}
	speculations   = []choice{{string(queue.FixedSpeculation), "fixed: on top of all that is ahead"}, {string(queue.AdaptiveSpeculation), "adaptive: by how likely that is to land"}}
	optimChoices   = []choice{{string(queue.OptimizationOff), "off"}, {string(queue.BisectionSkipRedundantTests), "skip what has failed already"}}
)

var settingGroups = []settingGroup{
	{"Testing", []settingDef{
		numberSetting("concurrency", "Testing slots", "How many groups of the line are tested at once.", 1,
			func(q *queue.Queue) int64 { return q.Concurrency }, func(c *queue.Change) **int64 { return &c.Concurrency }),
		numberSetting("testingTimeoutMinutes", "Longest test, in minutes", "A test run that takes longer counts as failed.", 1,
			func(q *queue.Queue) int64 { return q.TestingTimeoutMinutes }, func(c *queue.Change) **int64 { return &c.TestingTimeoutMinutes }),
		statusesSetting(),
		choiceSetting("mode", "Mode", "In parallel mode CI uploads which targets a pull request impacts, and only those that share one wait for each other. A change takes effect when the line is empty.",
			modeChoices, func(q *queue.Queue) queue.Mode { return q.ReportedMode() }, func(c *queue.Change) **queue.Mode { return &c.Mode }),
		numberSetting("pendingFailureDepth", "Failures wait for", "A failed group waits for the results of this many groups behind it before it is judged. 0 is off.", 0,
			func(q *queue.Queue) int64 { return q.PendingFailureDepth }, func(c *queue.Change) **int64 { return &c.PendingFailureDepth }),
		switchSetting("canOptimisticallyMerge", "Optimistic merging", "When a group passes, those ahead of it that it includes pass too.",
			func(q *queue.Queue) bool { return q.CanOptimisticallyMerge }, func(c *queue.Change) **bool { return &c.CanOptimisticallyMerge }),
		choiceSetting("speculation", "What is tested on what", "Adaptive keeps out of everybody's base what will probably fail, estimated from this queue's history, and batches, where they are on, only when more wait than slots are free.",
			speculations, func(q *queue.Queue) queue.Speculation { return q.Speculation }, func(c *queue.Change) **queue.Speculation { return &c.Speculation }),
	}},
	{"Batches", []settingDef{
		switchSetting("batch", "Batches", "Several pull requests are tested together; when the test fails, halves of the batch find the culprit.",
			func(q *queue.Queue) bool { return q.Batch }, func(c *queue.Change) **bool { return &c.Batch }),
		numberSetting("batchingMinSize", "Size of a batch", "A batch starts when so many wait; it never takes more.", 1,
			func(q *queue.Queue) int64 { return q.BatchingMinSize }, func(c *queue.Change) **int64 { return &c.BatchingMinSize }),
		numberSetting("batchingMaxWaitTimeMinutes", "Longest wait for a batch, in minutes", "After this a batch starts with whoever is there.", 1,
			func(q *queue.Queue) int64 { return q.BatchingMaxWaitTimeMinutes }, func(c *queue.Change) **int64 { return &c.BatchingMaxWaitTimeMinutes }),
		numberSetting("bisectionConcurrency", "Slots of searches", "How many parts of failed batches are tested at once, beside the line.", 1,
			func(q *queue.Queue) int64 { return q.BisectionConcurrency }, func(c *queue.Change) **int64 { return &c.BisectionConcurrency }),
		choiceSetting("optimizationMode", "Shortcuts of searches", "Do not test again a tree that has failed. A test that failed by chance then blames the last of the batch.",
			optimChoices, func(q *queue.Queue) queue.OptimizationMode { return q.OptimizationMode }, func(c *queue.Change) **queue.OptimizationMode { return &c.OptimizationMode }),
	}},
	{"Landing", []settingDef{
		choiceSetting("mergeMethod", "Merge method", "How a pull request becomes commits on the branch. It is tested exactly so.",
			methodChoices, func(q *queue.Queue) queue.MergeMethod { return q.MergeMethod }, func(c *queue.Change) **queue.MergeMethod { return &c.MergeMethod }),
		choiceSetting("landingMode", "Landing", "Who puts it on the branch. Unless it is set, merge commits land exactly and the others by the host.",
			landingChoices, func(q *queue.Queue) queue.LandingMode { return q.LandingMode() }, func(c *queue.Change) **queue.LandingMode { return &c.LandingMode }),
		choiceSetting("directMergeMode", "Direct merge", "Land without a test what already contains the branch's head with all required checks passed.",
			directChoices, func(q *queue.Queue) queue.DirectMergeMode { return q.DirectMergeMode }, func(c *queue.Change) **queue.DirectMergeMode { return &c.DirectMergeMode }),
		numberSetting("notReadyTimeoutHours", "Longest wait to be ready, in hours", "A pull request that is not ready by then leaves the queue. 0 is for ever.", 0,
			func(q *queue.Queue) int64 { return q.NotReadyTimeoutHours }, func(c *queue.Change) **int64 { return &c.NotReadyTimeoutHours }),
	}},
	{"On pull requests", []settingDef{
		switchSetting("commandsEnabled", "Commands in comments", "Comments such as /merge are obeyed.",
			func(q *queue.Queue) bool { return q.CommandsEnabled }, func(c *queue.Change) **bool { return &c.CommandsEnabled }),
		switchSetting("commentsEnabled", "Comments", "One comment on each pull request shows where it stands.",
			func(q *queue.Queue) bool { return q.CommentsEnabled }, func(c *queue.Change) **bool { return &c.CommentsEnabled }),
		switchSetting("statusCheckEnabled", "Check", "A check on each pull request shows where it stands.",
			func(q *queue.Queue) bool { return q.StatusCheckEnabled }, func(c *queue.Change) **bool { return &c.StatusCheckEnabled }),
		switchSetting("createPrsForTestingBranches", "Draft pull requests for test branches", "CI that runs on pull requests alone tests these.",
			func(q *queue.Queue) bool { return q.CreatePRsForTestingBranches }, func(c *queue.Change) **bool { return &c.CreatePRsForTestingBranches }),
		switchSetting("labelCommandsEnabled", "Labels are commands", "A label submits a pull request.",
			func(q *queue.Queue) bool { return q.LabelCommandsEnabled }, func(c *queue.Change) **bool { return &c.LabelCommandsEnabled }),
		labelSetting(),
		switchSetting("stateLabelsEnabled", "Labels of states", "A label on each pull request shows where it stands.",
			func(q *queue.Queue) bool { return q.StateLabelsEnabled }, func(c *queue.Change) **bool { return &c.StateLabelsEnabled }),
		switchSetting("extensionEnabled", "Browser extension", "Lets the browser extension show the queue on the host's pages.",
			func(q *queue.Queue) bool { return q.ExtensionEnabled }, func(c *queue.Change) **bool { return &c.ExtensionEnabled }),
	}},
}

// shown is a value as people read it.
func (d settingDef) shown(value string) string {
	switch d.Kind {
	case "switch":
		return map[string]string{"true": "on", "false": "off"}[value]
	case "choice":
		for _, c := range d.Choices {
			if c.Value == value {
				return c.Text
			}
		}
	case "lines":
		if value == "" {
			return "none of its own"
		}
		return strings.ReplaceAll(value, "\n", ", ")
	}
	return value
}
