package db

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// What is remembered is never more than allowed, and never of before the newest
// rename; and what is not remembered is returned.
func TestRememberedNumbers(t *testing.T) {
	t.Parallel()
	ids := make([]uuid.UUID, 6)
	for i := range ids {
		ids[i] = uuid.New()
	}
	rapid.Check(t, func(t *rapid.T) {
		memory := testNumbers{most: 10}
		renames, truth := map[int64]int64{}, map[int64]map[uuid.UUID]int64{}
		next := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"learn": func(t *rapid.T) {
				repo := rapid.Int64Range(1, 3).Draw(t, "repository")
				found := map[uuid.UUID]knownTest{}
				for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 6, rapid.ID[uuid.UUID]).Draw(t, "tests") {
					if truth[repo] == nil {
						truth[repo] = map[uuid.UUID]int64{}
					}
					if truth[repo][id] == 0 {
						next++
						truth[repo][id] = next
					}
					found[id] = knownTest{number: truth[repo][id]}
				}
				memory.learn(repo, renames[repo], found)
			},
			"rename": func(t *rapid.T) {
				repo := rapid.Int64Range(1, 3).Draw(t, "repository")
				late := map[uuid.UUID]knownTest{}
				for id, n := range truth[repo] {
					late[id] = knownTest{number: n}
				}
				before := renames[repo]
				renames[repo]++
				next++
				truth[repo] = map[uuid.UUID]int64{ids[0]: next}
				if rapid.Bool().Draw(t, "somebody hears of it first, and somebody afterwards of what was before") {
					memory.learn(repo, renames[repo], map[uuid.UUID]knownTest{ids[0]: {number: next}})
					memory.learn(repo, before, late)
				}
			},
			"": func(t *rapid.T) {
				all := 0
				for _, of := range memory.of {
					all += len(of.of)
				}
				if all > 10 || all != memory.count {
					t.Fatalf("%d are remembered, %d counted, 10 allowed", all, memory.count)
				}
				for repo := range int64(4) {
					known := 0
					others := memory.find(repo, renames[repo], ids, func(id uuid.UUID, n knownTest) {
						if known++; n.number != truth[repo][id] {
							t.Fatalf("test %v of repository %d is number %d, want %d", id, repo, n.number, truth[repo][id])
						}
					})
					if known+len(others) != len(ids) {
						t.Fatalf("%d known and %d others of %d", known, len(others), len(ids))
					}
				}
			},
		})
	})
}
