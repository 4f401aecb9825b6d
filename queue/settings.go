package queue

import (
	"slices"
	"strconv"
	"strings"
)

// Mode is the overlap rule of a queue: in Single mode everything overlaps, in
// Parallel mode what shares an impacted target does. Nothing else differs.
type Mode string

// The two modes.
const (
	Single   Mode = "single"
	Parallel Mode = "parallel"
)

// DirectMergeMode says whether a pull request that is already tested on top
// of the target may land without a run.
type DirectMergeMode string

// The direct merge modes.
const (
	DirectMergeOff    DirectMergeMode = "off"
	DirectMergeAlways DirectMergeMode = "always"
)

// OptimizationMode says what a bisection may conclude without a run.
type OptimizationMode string

// The optimization modes.
const (
	OptimizationOff             OptimizationMode = "off"
	BisectionSkipRedundantTests OptimizationMode = "bisection_skip_redundant_tests"
)

// MergeMethod is how a pull request becomes commits on the target.
type MergeMethod string

// The merge methods, with the host's meaning of each.
const (
	MergeCommit MergeMethod = "merge_commit"
	Squash      MergeMethod = "squash"
	Rebase      MergeMethod = "rebase"
)

// LandingMode is how tested commits reach the target: pushed exactly as
// tested, or merged once more by the host and compared afterwards.
type LandingMode string

// The landing modes.
const (
	LandExact LandingMode = "exact"
	LandHost  LandingMode = "host"
)

// MaxNumber is the largest value of every numeric setting: 2^32-1.
const MaxNumber = 4294967295

// Settings are what an owner decides about a queue. Times are whole minutes or
// hours because the API speaks them so.
type Settings struct {
	Concurrency                 int64            `json:"concurrency"`          // groups of the line tested at once
	BisectionConcurrency        int64            `json:"bisectionConcurrency"` // parts of all bisections tested at once
	TestingTimeoutMinutes       int64            `json:"testingTimeoutMinutes"`
	PendingFailureDepth         int64            `json:"pendingFailureDepth"` // 0 = off
	CanOptimisticallyMerge      bool             `json:"canOptimisticallyMerge"`
	Batch                       bool             `json:"batch"`
	BatchingMaxWaitTimeMinutes  int64            `json:"batchingMaxWaitTimeMinutes"`
	BatchingMinSize             int64            `json:"batchingMinSize"`
	Mode                        Mode             `json:"mode"`
	CommentsEnabled             bool             `json:"commentsEnabled"`
	CommandsEnabled             bool             `json:"commandsEnabled"`
	CreatePRsForTestingBranches bool             `json:"createPrsForTestingBranches"`
	StatusCheckEnabled          bool             `json:"statusCheckEnabled"`
	RequiredStatuses            []string         `json:"requiredStatuses"` // the queue's own list; empty = ask the repository
	DirectMergeMode             DirectMergeMode  `json:"directMergeMode"`
	OptimizationMode            OptimizationMode `json:"optimizationMode"`
	MergeMethod                 MergeMethod      `json:"mergeMethod"`
	// ChosenLandingMode is what an owner set, "" while it follows MergeMethod.
	ChosenLandingMode    LandingMode `json:"landingMode,omitempty"`
	NotReadyTimeoutHours int64       `json:"notReadyTimeoutHours"` // 0 = none
	LabelCommandsEnabled bool        `json:"labelCommandsEnabled"`
	EnqueueingLabel      string      `json:"enqueueingLabel"`
	StateLabelsEnabled   bool        `json:"stateLabelsEnabled"`
	ExtensionEnabled     bool        `json:"extensionEnabled"`
	Speculation          Speculation `json:"speculation"`
}

// DefaultSettings are those of a new queue whose creator named nothing.
func DefaultSettings() Settings {
	return Settings{
		Concurrency: 1, BisectionConcurrency: 1,
		TestingTimeoutMinutes:      300,
		BatchingMaxWaitTimeMinutes: 5, BatchingMinSize: 4,
		Mode:            Single,
		CommentsEnabled: true, CommandsEnabled: true,
		CreatePRsForTestingBranches: true, StatusCheckEnabled: true,
		RequiredStatuses: []string{},
		DirectMergeMode:  DirectMergeOff, OptimizationMode: OptimizationOff,
		MergeMethod: Squash, EnqueueingLabel: "signalbox",
		Speculation: FixedSpeculation,
	}
}

// LandingMode is the landing mode in force: the chosen one, else exact for
// merge commits (the host then sees the merge by itself) and host for the
// methods whose commits the host would not recognise.
func (s Settings) LandingMode() LandingMode {
	switch {
	case s.ChosenLandingMode != "":
		return s.ChosenLandingMode
	case s.MergeMethod == MergeCommit:
		return LandExact
	default:
		return LandHost
	}
}

// Change is a wish to change a queue: what is nil stays. It has been checked
// by whoever made it; Apply takes it whole or refuses it whole.
type Change struct {
	State                       *State            `json:"state,omitempty"`
	Concurrency                 *int64            `json:"concurrency,omitempty"`
	BisectionConcurrency        *int64            `json:"bisectionConcurrency,omitempty"`
	TestingTimeoutMinutes       *int64            `json:"testingTimeoutMinutes,omitempty"`
	PendingFailureDepth         *int64            `json:"pendingFailureDepth,omitempty"`
	CanOptimisticallyMerge      *bool             `json:"canOptimisticallyMerge,omitempty"`
	Batch                       *bool             `json:"batch,omitempty"`
	BatchingMaxWaitTimeMinutes  *int64            `json:"batchingMaxWaitTimeMinutes,omitempty"`
	BatchingMinSize             *int64            `json:"batchingMinSize,omitempty"`
	Mode                        *Mode             `json:"mode,omitempty"`
	CommentsEnabled             *bool             `json:"commentsEnabled,omitempty"`
	CommandsEnabled             *bool             `json:"commandsEnabled,omitempty"`
	CreatePRsForTestingBranches *bool             `json:"createPrsForTestingBranches,omitempty"`
	StatusCheckEnabled          *bool             `json:"statusCheckEnabled,omitempty"`
	RequiredStatuses            *[]string         `json:"requiredStatuses,omitempty"`
	DirectMergeMode             *DirectMergeMode  `json:"directMergeMode,omitempty"`
	OptimizationMode            *OptimizationMode `json:"optimizationMode,omitempty"`
	MergeMethod                 *MergeMethod      `json:"mergeMethod,omitempty"`
	LandingMode                 *LandingMode      `json:"landingMode,omitempty"`
	NotReadyTimeoutHours        *int64            `json:"notReadyTimeoutHours,omitempty"`
	LabelCommandsEnabled        *bool             `json:"labelCommandsEnabled,omitempty"`
	EnqueueingLabel             *string           `json:"enqueueingLabel,omitempty"`
	StateLabelsEnabled          *bool             `json:"stateLabelsEnabled,omitempty"`
	ExtensionEnabled            *bool             `json:"extensionEnabled,omitempty"`
	Speculation                 *Speculation      `json:"speculation,omitempty"`
}

// With returns the settings after a change, Mode and State left to the queue
// because they depend on what is inside it.
func (s Settings) With(c Change) Settings {
	set(&s.Concurrency, c.Concurrency)
	set(&s.BisectionConcurrency, c.BisectionConcurrency)
	set(&s.TestingTimeoutMinutes, c.TestingTimeoutMinutes)
	set(&s.PendingFailureDepth, c.PendingFailureDepth)
	set(&s.CanOptimisticallyMerge, c.CanOptimisticallyMerge)
	set(&s.Batch, c.Batch)
	set(&s.BatchingMaxWaitTimeMinutes, c.BatchingMaxWaitTimeMinutes)
	set(&s.BatchingMinSize, c.BatchingMinSize)
	set(&s.CommentsEnabled, c.CommentsEnabled)
	set(&s.CommandsEnabled, c.CommandsEnabled)
	set(&s.CreatePRsForTestingBranches, c.CreatePRsForTestingBranches)
	set(&s.StatusCheckEnabled, c.StatusCheckEnabled)
	if c.RequiredStatuses != nil {
		s.RequiredStatuses = append([]string{}, *c.RequiredStatuses...)
	}
	set(&s.DirectMergeMode, c.DirectMergeMode)
	set(&s.OptimizationMode, c.OptimizationMode)
	set(&s.MergeMethod, c.MergeMethod)
	set(&s.ChosenLandingMode, c.LandingMode)
	set(&s.NotReadyTimeoutHours, c.NotReadyTimeoutHours)
	set(&s.LabelCommandsEnabled, c.LabelCommandsEnabled)
	set(&s.EnqueueingLabel, c.EnqueueingLabel)
	set(&s.StateLabelsEnabled, c.StateLabelsEnabled)
	set(&s.ExtensionEnabled, c.ExtensionEnabled)
	set(&s.Speculation, c.Speculation)
	return s
}

// NewSettings are the defaults with a creator's wishes. A bisection limit that
// was not named is copied from the concurrency once and never follows it.
func NewSettings(c Change) Settings {
	s := DefaultSettings().With(c)
	set(&s.Mode, c.Mode)
	if c.BisectionConcurrency == nil {
		s.BisectionConcurrency = s.Concurrency
	}
	return s
}

func set[T any](field *T, wish *T) {
	if wish != nil {
		*field = *wish
	}
}

// The named priorities. Lower goes first; only Urgent interrupts what runs.
const (
	Urgent int64 = 0
	High   int64 = 10
	Medium int64 = 100 // when nobody said anything
	Low    int64 = 200
	Lowest int64 = 255
)

var priorityNames = []struct {
	name  string
	value int64
}{{"urgent", Urgent}, {"high", High}, {"medium", Medium}, {"low", Low}, {"lowest", Lowest}}

// PriorityNames lists the names in order, urgent first.
func PriorityNames() []string {
	names := make([]string, len(priorityNames))
	for i, p := range priorityNames {
		names[i] = p.name
	}
	return names
}

// PriorityName is the name of that exact value, else the number in decimal.
func PriorityName(value int64) string {
	for _, p := range priorityNames {
		if p.value == value {
			return p.name
		}
	}
	return strconv.FormatInt(value, 10)
}

// ParsePriority reads a name (in any case) or a decimal number from 0 to 255.
func ParsePriority(text string) (value int64, ok bool) {
	i := slices.IndexFunc(priorityNames, func(p struct {
		name  string
		value int64
	}) bool {
		return strings.EqualFold(p.name, text)
	})
	if i >= 0 {
		return priorityNames[i].value, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return int64(n), err == nil
}

// Changed are the settings of a queue as a change would leave them, the mode
// included, for those who ask what that would do. In a switch of modes the wanted
// mode counts.
func (q *Queue) Changed(c Change) Settings {
	s := q.Settings.With(c)
	s.Mode = q.ReportedMode()
	set(&s.Mode, c.Mode)
	return s
}
