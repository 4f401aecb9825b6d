package rest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"signalbox/queue"
)

// The sizes of a page, and of a list of pull requests that is asked for.
const (
	defaultTake = 50
	maxTake     = 100
	maxCursor   = 255 // bytes; ours are shorter
)

// submittedPage is one page of a queue's pull requests.
type submittedPage struct {
	PullRequests []submitted `json:"pullRequests"`
	NextCursor   string      `json:"nextCursor,omitempty"` // left out on the last page
}

// listed is what makes a list of pull requests this one and no other.
type listed struct {
	List         string
	Org          int64
	Queue        queue.ID
	State        queue.EntryState
	Since, Until time.Time
}

func (a *API) listPullRequests(ctx context.Context, c *call) (any, error) {
	var state *queue.EntryState
	var since, until *time.Time
	var cursor *string
	take := new(int64)
	*take = defaultTake
	p, q, err := a.named(ctx, c,
		optional("state", oneOf(&state, queue.EntryStates...)),
		optional("since", instant(&since)),
		optional("until", instant(&until)),
		optional("cursor", textWish(&cursor, maxCursor)),
		optional("take", integerUpTo(&take, 1, maxTake)),
	)
	if err != nil {
		return nil, err
	}
	list := listed{List: "listPullRequests", Org: c.org.ID, Queue: q.ID, State: orZero(state), Since: orZero(since), Until: orZero(until)}
	page := queue.EntryPage{State: list.State, Since: list.Since, Until: list.Until, Take: int(*take) + 1} // one more shows whether there are more
	key, err := a.cursorKey(ctx)
	if err != nil {
		return nil, err
	}
	if cursor != nil {
		page.Below, err = readCursor(key, list, *cursor, "cursor must be the nextCursor of an answer to the same repo, targetBranch, state, since and until.")
		if err != nil {
			return nil, err
		}
	}
	return a.page(ctx, c, p, q, list, page, key)
}

// page reads a page of a list and signs where the next one begins.
func (a *API) page(ctx context.Context, c *call, p place, q queue.Queue, list listed, page queue.EntryPage, key []byte) (any, error) {
	entries, err := a.store.Entries(ctx, q.ID, page)
	if err != nil {
		return nil, fmt.Errorf("list pull requests: %w", err)
	}
	var out submittedPage
	if len(entries) == page.Take {
		entries = entries[:page.Take-1]
		if out.NextCursor, err = signCursor(key, list, entries[len(entries)-1].Number); err != nil {
			return nil, err
		}
	}
	numbers := make([]int64, len(entries))
	for i := range entries {
		numbers[i] = entries[i].Number
	}
	out.PullRequests, _, err = a.several(ctx, c, p, q, numbers)
	return out, err
}

// submittedSet is some pull requests of a queue.
type submittedSet struct {
	PullRequests []submitted `json:"pullRequests"`
	NotFound     []int64     `json:"notFound"` // never submitted to this queue
}

func (a *API) getSubmittedPullRequests(ctx context.Context, c *call) (any, error) {
	var numbers []int64
	p, q, err := a.named(ctx, c, pullRequests(&numbers))
	if err != nil {
		return nil, err
	}
	var out submittedSet
	out.PullRequests, out.NotFound, err = a.several(ctx, c, p, q, numbers)
	return out, err
}

// several shows pull requests of a queue as they are at one moment, in the
// order in which they are named, each once.
func (a *API) several(ctx context.Context, c *call, p place, q queue.Queue, numbers []int64) (shown []submitted, missing []int64, err error) {
	shown, missing = []submitted{}, []int64{}
	if len(numbers) == 0 {
		return shown, missing, nil
	}
	s, err := a.store.Read(ctx, q.ID, numbers...)
	if err != nil {
		return nil, nil, orNotFound(fmt.Errorf("read entries: %w", err), p.notFound())
	}
	for i, number := range numbers {
		if slices.Contains(numbers[:i], number) {
			continue
		}
		if e := s.ByPR(number); e != nil {
			shown = append(shown, encodeSubmitted(s, e, explain(s, e, c.now)))
		} else {
			missing = append(missing, number)
		}
	}
	return shown, missing, nil
}

// pullRequests reads prs: a list of objects with a number.
func pullRequests(to *[]int64) field {
	return required("prs", func(f *form, v value) {
		if f.array(v, "objects", maxTake, func(item value) {
			var n int64
			f.object(item, []field{required("number", pullRequestNumber(&n))})
			*to = append(*to, n)
		}) && len(*to) == 0 {
			f.refuse(v, "must not be empty")
		}
	})
}

// instant reads a time as RFC 3339 writes it, with its zone.
func instant(to **time.Time) func(*form, value) {
	return func(f *form, v value) {
		if v.raw[0] == '"' {
			if t, err := time.Parse(time.RFC3339Nano, v.text()); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
				t = t.UTC().Truncate(time.Microsecond) // what the database keeps
				*to = &t
				return
			}
		}
		f.refuse(v, "must be a time of RFC 3339, such as 2026-11-27T20:07:41.331Z")
	}
}

// orZero is what a pointer points at, or nothing.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
