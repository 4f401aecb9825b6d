package rest

import (
	"fmt"
	"strings"

	"signalbox/queue"
)

// settings is what createQueue and updateQueue both take.
type settings struct {
	place
	change queue.Change
	forget *bool // deleteRequiredStatuses
}

// terraform reports whether the caller is the Terraform provider, which sends
// every setting it knows, defaults included.
func (c *call) terraform() bool { return lower(c.header.Get(headerSource)) == "terraform" }

// decodeSettings reads the settings that a request names. What it does not
// name stays nil. One bad field refuses all.
func decodeSettings(c *call) (settings, error) {
	var s settings
	w := &s.change
	err := decode(c.body, append(s.fields(),
		optional("state", oneOf(&w.State, queue.Running, queue.Paused, queue.Draining)),
		optional("mode", oneOf(&w.Mode, queue.Single, queue.Parallel)),
		optional("concurrency", integer(&w.Concurrency, 1)),
		optional("bisectionConcurrency", integer(&w.BisectionConcurrency, 1)),
		optional("testingTimeoutMinutes", integer(&w.TestingTimeoutMinutes, 1)),
		field{name: "pendingFailureDepth", nullable: true, read: failureDepth(&w.PendingFailureDepth, c.terraform())},
		optional("canOptimisticallyMerge", boolean(&w.CanOptimisticallyMerge)),
		optional("batch", boolean(&w.Batch)),
		optional("batchingMaxWaitTimeMinutes", integer(&w.BatchingMaxWaitTimeMinutes, 1)),
		optional("batchingMinSize", integer(&w.BatchingMinSize, 1)),
		optional("commentsEnabled", boolean(&w.CommentsEnabled)),
		optional("commandsEnabled", boolean(&w.CommandsEnabled)),
		optional("createPrsForTestingBranches", boolean(&w.CreatePRsForTestingBranches)),
		optional("statusCheckEnabled", boolean(&w.StatusCheckEnabled)),
		optional("requiredStatuses", statuses(&w.RequiredStatuses)),
		optional("deleteRequiredStatuses", boolean(&s.forget)),
		optional("directMergeMode", oneOf(&w.DirectMergeMode, queue.DirectMergeOff, queue.DirectMergeAlways)),
		optional("optimizationMode", oneOf(&w.OptimizationMode, queue.OptimizationOff, queue.BisectionSkipRedundantTests)),
		optional("mergeMethod", oneOf(&w.MergeMethod, queue.MergeCommit, queue.Squash, queue.Rebase)),
		optional("landingMode", oneOf(&w.LandingMode, queue.LandExact, queue.LandHost)),
		optional("notReadyTimeoutHours", integer(&w.NotReadyTimeoutHours, 0)),
		optional("labelCommandsEnabled", boolean(&w.LabelCommandsEnabled)),
		optional("enqueueingLabel", textWish(&w.EnqueueingLabel, maxLabel)),
		optional("stateLabelsEnabled", boolean(&w.StateLabelsEnabled)),
		optional("extensionEnabled", boolean(&w.ExtensionEnabled)),
		optional("speculation", oneOf(&w.Speculation, queue.FixedSpeculation, queue.AdaptiveSpeculation)),
	)...)
	if err != nil {
		return settings{}, err
	}
	return s, s.settleStatuses()
}

// failureDepth reads pendingFailureDepth. Null turns it off. So would 0, but
// the contract's bounds exclude it, except for the Terraform provider, whose
// default it is.
func failureDepth(to **int64, zero bool) func(*form, value) {
	least := int64(1)
	if zero {
		least = 0
	}
	return func(f *form, v value) {
		if v.null() {
			*to = new(int64)
			return
		}
		n, ok := integerIn(v, least, queue.MaxNumber)
		if !ok {
			f.refuse(v, fmt.Sprintf("must be an integer from %d to %d, or null to turn it off", least, queue.MaxNumber))
			return
		}
		*to = &n
	}
}

// settleStatuses makes one wish of the two fields about required statuses.
func (s *settings) settleStatuses() error {
	if s.forget == nil || !*s.forget {
		return nil
	}
	if named := s.change.RequiredStatuses; named != nil && len(*named) > 0 {
		return invalidRequest("deleteRequiredStatuses must not be true together with a list of requiredStatuses.")
	}
	s.change.RequiredStatuses = &[]string{}
	return nil
}

// creatable says what keeps a queue from being made at a place. Only a host
// that we work on can ever be connected, and only what the host and git allow
// as names can ever be there.
func (a *API) creatable(p place) error {
	var problems []string
	note := func(path, problem string) {
		if problem != "" {
			problems = append(problems, path+" "+problem+".")
		}
	}
	if p.host != a.hostName {
		note("repo.host", "must be "+a.hostName+", where this service works")
	}
	note("repo.owner", ownerProblem(p.owner))
	note("repo.name", repoProblem(p.name))
	note("targetBranch", branchProblem(p.branch))
	if problems == nil {
		return nil
	}
	return invalidRequest(strings.Join(problems, " "))
}
