package db_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/flaky"
	"signalbox/queue"
)

// fill makes the world's database one that has been used for a year: its queue
// has 50,000 entries of which 1,000 are active, most of them free.
func (w *world) fill() {
	w.t.Helper()
	one, run := entry(1), liveRun("template", 1, "template", "template")
	run.State, run.Members = queue.RunPassed, []queue.EntryID{one.ID}
	run.StartedAt, run.EndedAt = epoch.Add(-time.Hour), epoch.Add(-time.Minute)
	run.Checks = map[string]queue.Report{"k": {Kind: queue.CommitStatus, Name: "ci", Result: "success"}}
	w.store(func(p *queue.Plan) { p.Entries, p.Runs = []queue.Entry{one}, []queue.Run{run} })
	for _, statement := range []string{
		`INSERT INTO entries SELECT r.* FROM entries e, generate_series(2, 50000) n,
			LATERAL json_populate_record(e, json_build_object('id', gen_random_uuid(), 'pr', n, 'head', 'head' || n, 'bound_head', 'head' || n,
				'title', repeat('x', 200), 'reason', 'PR_CLOSED', 'submitted_at', e.submitted_at - n * interval '1 minute',
				'refresh_due', CASE WHEN n % 50 = 0 THEN NULL ELSE e.submitted_at + n * interval '1 hour' END,
				'state', CASE WHEN n % 50 <> 0 THEN 'cancelled' WHEN n % 200 = 0 THEN 'not_ready' ELSE 'pending' END)) r
			WHERE e.pr = 1`,
		`INSERT INTO runs SELECT x.* FROM runs r, generate_series(1, 50000) n,
			LATERAL json_populate_record(r, json_build_object('id', 'run' || n, 'group_id', n + 1, 'commit', 'commit' || n, 'branch', 'branch' || n,
				'ended_at', r.ended_at - n * interval '1 minute')) x`,
		`INSERT INTO checks SELECT x.* FROM checks c, generate_series(1, 50000) n, LATERAL json_populate_record(c, json_build_object('run_id', 'run' || n)) x`,
		`INSERT INTO timeline (queue_id, entry_id, pr, submission, from_state, to_state, at, reason, message, actor_login, actor_id, actor_bot, run_id)
			SELECT e.queue_id, e.id, e.pr, 1, '', 'not_ready', e.submitted_at, 'API_REQUESTED', '', '', 0, false, 'run' || e.pr FROM entries e, generate_series(1, 2)`,
		`INSERT INTO deliveries SELECT 'old ' || n, now() FROM generate_series(1, 50000) n`,
		`INSERT INTO inbox (repository_id, kind, pr, everybody, body, received_at, routed_at, commit, waits)
			SELECT r.id, 'pull_request_doubted', n, false, '{}', now(), CASE WHEN n % 10 > 0 THEN now() END, 'unknown' || n, n % 10 = 0
			FROM repositories r, generate_series(1, 50000) n`,
		`INSERT INTO impacted_targets (repository_id, pr, head, everything, count, hashes, names, created_at)
			SELECT r.id, n, 'head' || n, true, 0, '', '', now() FROM repositories r, generate_series(1, 50000) n`,
		`INSERT INTO queue_hours SELECT q.id, date_trunc('hour', now()) - n * interval '1 hour', 'merged', 5, 1 FROM queues q, generate_series(1, 20000) n`,
		// Ten thousand repositories with a queue each, of a thousand organisations.
		`INSERT INTO organizations SELECT x.* FROM organizations o, generate_series(1, 1000) n,
			LATERAL json_populate_record(o, json_build_object('id', 1000 + n, 'slug', 'org' || n)) x WHERE o.slug = 'acme'`,
		`INSERT INTO repositories SELECT x.* FROM repositories r, generate_series(1, 10000) n,
			LATERAL json_populate_record(r, json_build_object('id', 1000 + n, 'org_id', 1001 + n % 1000, 'name', 'repo' || n, 'host_id', 1000000 + n)) x WHERE r.name = 'app'`,
		`INSERT INTO queues SELECT x.* FROM queues q, generate_series(1, 10000) n,
			LATERAL json_populate_record(q, json_build_object('id', 1000 + n, 'key', gen_random_uuid(), 'repository_id', 1000 + n,
				'wake_at', CASE WHEN n % 10 = 0 THEN q.created_at + interval '1 year' END)) x`,
		`INSERT INTO queue_hours_counted SELECT q.id, (SELECT max(id) FROM timeline) FROM queues q`,
		`INSERT INTO api_tokens (org_id, name, hash, scope, created_at) SELECT 1001 + n % 1000, 't', sha256(n::text::bytea), 'read', now() FROM generate_series(1, 10000) n`,
		`INSERT INTO sessions SELECT sha256(n::text::bytea), 'ann', 1, now(), now() + interval '1 day' FROM generate_series(1, 10000) n`,
		`INSERT INTO audit SELECT x.* FROM audit a, generate_series(1, 10000) n, LATERAL json_populate_record(a, json_build_object('id', 1000000 + n, 'org_id', 1001 + n % 1000)) x
			WHERE a.id = (SELECT min(id) FROM audit)`,
		`INSERT INTO sticky_comments SELECT r.id, n, n FROM repositories r, generate_series(1, 10000) n WHERE r.name = 'app'`,
		`INSERT INTO unfinished_checks SELECT q.id, n, 'commit' FROM queues q, generate_series(1, 10000) n WHERE q.id < 1000`,
		`INSERT INTO subscribers (key, org_id, kind, name, address, sealed, events, repositories, enabled, why, created_at)
			SELECT gen_random_uuid(), 1001 + n % 1000, 'webhook', 's', 'there', '', '{*}', '{}', true, '', now() FROM generate_series(1, 10000) n`,
		`INSERT INTO event_deliveries (subscriber_id, event, type, subject, at, body, state, since, next_at)
			SELECT s.id, gen_random_uuid(), 'queue.state_changed', 'queue 1', now(), '{}', CASE WHEN n = 1 AND s.id % 100 = 0 THEN 'waiting' ELSE 'delivered' END, now(),
				CASE WHEN n = 1 AND s.id % 100 = 0 THEN now() + interval '1 day' END FROM subscribers s, generate_series(1, 3) n`,
		`INSERT INTO river_job (kind, max_attempts, state, finalized_at, args) SELECT 'sync_pr', 5, 'completed', now(), '{}' FROM generate_series(1, 20000)`,
		`INSERT INTO landings SELECT q.id, n, n, gen_random_uuid(), 1, n, 'head', '', 'squash', 'host', 'on', 'commit', 'tree', '', false, true, '', now()
			FROM queues q, generate_series(1, 10000) n WHERE q.id < 1000`,
		// Uploads of tests are many; what they left was loaded before.
		`INSERT INTO test_uploads SELECT x.* FROM test_uploads u, generate_series(1, 300) n, LATERAL jsonb_populate_record(u, jsonb_build_object(
				'id', 1000000 + n * 1000 + u.id, 'key', sha256((u.id || ' ' || n)::bytea), 'commit', u.id || 'x' || n)) x`,
		`ANALYZE`,
	} {
		_, err := w.SQL().Exec(statement)
		w.must(err)
	}
}

// rare are the methods that need not be fast where much is stored, and why.
// Every other exported method of DB has a row in hotDeeds: a new one fails the
// test until it is in one of the two.
var rare = map[string][]string{
	"what an operator or an administrator does now and then": {
		"AddSubscriber", "AddTestDelivery", "ChangeSubscriber", "Connect", "Connected", "CreateOrganization", "CreateQueue", "CreateToken", "DeleteQueue", "DeleteSubscriber",
		"ImportOverrides", "KeepApp", "App", "LinkTicket", "Redeliver", "RevokeToken", "SetAutomatic", "SetPublicUploads", "SetQuarantine", "NewSession", "EndSession",
		"FirstSecret", "OwnSecret", "Migrate"},
	"a chore of every hour or of every start":                     {"KeepTests", "KeepTestsSoon", "Maintain", "ResyncSoon"},
	"a chore of every few minutes that is about all repositories": {"Listening", "Tested"},
	"it is asked for all of something, and what that costs is in docs/benchmarks.md": {
		"WithoutQueue", "Counts", "CountUnhealthyTests", "History", "ListQueues", "Measures", "Proofs", "Queues", "Turns", "Whole", "AllQuarantined"},
	"it is about this program and its connections": {"Appear", "Close", "DeliveriesAdded", "Dropped", "Inserting", "InTurn", "Ready", "SQL", "Wakeups"},
	"tests alone have it":                          {"Inbound", "Patient", "ReceiveAlone", "StoreWishesTogether", "Telling", "Wishing"},
}

// TestEveryMethodIsHotOrRare holds the two lists against DB.
func TestEveryMethodIsHotOrRare(t *testing.T) {
	t.Parallel()
	known := map[string]int{}
	for _, methods := range rare {
		for _, m := range methods {
			known[m]++
		}
	}
	for _, deed := range hotDeeds(nil) {
		for _, m := range deed.methods() {
			known[m] += 2
		}
	}
	d := reflect.TypeFor[*db.DB]()
	for m := range d.Methods() {
		switch n := known[m.Name]; {
		case n == 0:
			t.Errorf("DB.%s is in neither list: add it to hotDeeds, or say in rare why it may read whole tables", m.Name)
		case n%2 == 1 && n > 1:
			t.Errorf("DB.%s is in both lists", m.Name)
		}
		delete(known, m.Name)
	}
	for m := range known {
		t.Errorf("DB has no method %s", m)
	}
}

// errNotDue says that no queue was due.
var errNotDue = errors.New("the queue was not due")

// hotDeed is something that happens all the time.
type hotDeed struct {
	// name begins with the methods that it is about, up to a colon.
	name string
	do   func(d *db.DB) error
	// whole names tables that it is about all of: chores of all queues.
	whole []string
}

func (h hotDeed) methods() []string {
	names, _, _ := strings.Cut(h.name, ":")
	return strings.Fields(names)
}

// What happens all the time reads no large table from end to end, and of no
// index more than it needs. Postgres itself counts what it read, so what is
// judged is each statement as it is run.
func TestNothingThatHappensOftenScansALargeTable(t *testing.T) {
	if testing.Short() {
		t.Skip("800,000 rows")
	}
	t.Parallel()
	s := newStorage(t)
	s.fill()
	for _, deed := range hotDeeds(s) {
		scanned, indexed := s.read()
		d := dbtest.Open(t, s.dsn, atEpoch)
		if err := deed.do(d); err != nil {
			t.Errorf("%s: %v", deed.name, err)
		}
		// A connection that ends tells what it has counted.
		s.must(d.Close())
		eventually(t, "its connections ended", func() bool {
			return s.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`) == 0
		})
		nowScanned, nowIndexed := s.read()
		for table, rows := range nowScanned {
			if n := rows - scanned[table]; n > 5000 && !slices.Contains(deed.whole, table) {
				t.Errorf("%s: %d rows of %s were read one after the other", deed.name, n, table)
			}
		}
		for index, rows := range nowIndexed {
			if n := rows - indexed[index]; n > 5000 && !slices.ContainsFunc(deed.whole, func(table string) bool { return strings.HasPrefix(index, table+"_") }) {
				t.Errorf("%s: %d rows were looked at in the index %s", deed.name, n, index)
			}
		}
	}
}

// read is how many rows of each table were read so far by scans from end to
// end, and how many entries of each index were looked at.
func (w *world) read() (scanned, indexed map[string]int64) {
	w.t.Helper()
	counted := func(query string) map[string]int64 {
		rows, err := w.SQL().Query(query)
		w.must(err)
		defer rows.Close()
		read := map[string]int64{}
		for rows.Next() {
			var name string
			var n int64
			w.must(rows.Scan(&name, &n))
			read[name] = n
		}
		w.must(rows.Err())
		return read
	}
	return counted(`SELECT relname, seq_tup_read FROM pg_stat_user_tables`), counted(`SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes`)
}

// hotDeeds are all of them, on a storage that is filled; with nil they are only
// listed.
func hotDeeds(s *storage) []hotDeed {
	if s == nil {
		s = &storage{world: &world{}, repos: make([]queue.RepoID, 1)}
	}
	ctx := context.Background()
	w := s.world
	repo, q, tested := w.repo.ID, w.queue.ID, s.repos[0]
	test := storedTest(0, 7).ID()
	add := func(d *db.DB, q queue.ID, facts ...queue.Fact) error { return d.Append(ctx, repo, q, facts...) }
	decide := func(d *db.DB) error {
		_, ok, err := d.UpdateDue(ctx, epoch, func(s *queue.Snapshot, facts []queue.Received, _ time.Time) queue.Plan {
			p := unchanged(s)
			if len(s.Entries) > 2000 {
				w.t.Errorf("the window has %d entries", len(s.Entries))
			}
			for _, e := range s.Entries { // as good as any
				e.Version++
				p.Entries = []queue.Entry{*e}
				break
			}
			p.Runs = []queue.Run{liveRun("new", 99999, "unknown50", "new")}
			p.Answers = map[int64]queue.Answer{}
			for _, f := range facts {
				p.Answers[f.ID] = queue.Answer{}
			}
			return p
		})
		if err == nil && !ok {
			return errNotDue
		}
		return err
	}
	upload := func(n int) flaky.Upload {
		return flaky.Upload{Repository: int64(tested), Org: "acme", Repo: "github.com/acme/large0", Received: epoch, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: fmt.Sprintf("%040x", n), Branch: "main", Check: "test"}}}
	}
	var number int64 // of an upload
	return []hotDeed{
		// The way in.
		{name: "Receive", do: func(d *db.DB) error {
			_, err := d.Receive(ctx, "new", host, hostID, []queue.Fact{queue.PullRequestDoubted{PR: 50}}, nil)
			return err
		}},
		{name: "Append Route: a pull request, a commit, a branch", do: func(d *db.DB) error {
			if err := add(d, 0, queue.PullRequestDoubted{PR: 50}, queue.CheckReported{Commit: "commit7"}, queue.CheckReported{Commit: "head50"},
				queue.CheckReported{Commit: "nobody's"}, queue.TestBranchMoved{Branch: "branch7"}); err != nil {
				return err
			}
			return d.Route(ctx, epoch)
		}},
		{name: "Strays", do: func(d *db.DB) error {
			_, err := d.Strays(ctx, repo, []string{"branch7", "nobody's"}, epoch)
			return err
		}},
		{name: "LastDelivery", do: func(d *db.DB) error { _, err := d.LastDelivery(ctx); return err }},
		{name: "Token", do: func(d *db.DB) error { _, err := d.Token(ctx, sha256.Sum256([]byte("7")), epoch); return err }},
		{name: "Session", do: func(d *db.DB) error { _, err := d.Session(ctx, sha256.Sum256([]byte("7")), time.Time{}); return err }},
		{name: "SetImpactedTargets", do: func(d *db.DB) error { return d.SetImpactedTargets(ctx, repo, 50, "head50", []string{"a"}, false) }},

		// Decisions.
		{name: "UpdateDue: what was routed", do: decide},
		{name: "UpdateDue: a wish", do: func(d *db.DB) error {
			if err := add(d, q, queue.CancelRequested{PR: 50}); err != nil {
				return err
			}
			return decide(d)
		}},
		{name: "Wish: with the decision that answers it", do: func(d *db.DB) error {
			answered := make(chan error, 1)
			go func() {
				_, _, err := d.Wish(ctx, repo, q, queue.CancelRequested{PR: 50})
				answered <- err
			}()
			for {
				select {
				case err := <-answered:
					return err
				default:
				}
				if err := decide(d); err != nil && !errors.Is(err, errNotDue) {
					return err
				}
			}
		}},
		{name: "UpdateDue: everybody's fact finds nothing due elsewhere", do: func(d *db.DB) error {
			_, _, err := d.UpdateDue(ctx, epoch, func(s *queue.Snapshot, _ []queue.Received, _ time.Time) queue.Plan { return unchanged(s) })
			return err
		}},
		{name: "UpdateDue: in parallel mode, with batches", do: func(d *db.DB) error {
			if _, err := w.SQL().Exec(`UPDATE queues SET mode = 'parallel', batch = true, concurrency = 5 WHERE id = $1`, int64(q)); err != nil {
				return err
			}
			if err := add(d, q, queue.PullRequestDoubted{PR: 50}); err != nil {
				return err
			}
			return decide(d)
		}},
		{name: "NextWake", do: func(d *db.DB) error { _, err := d.NextWake(ctx); return err }},
		{name: "Postpone", do: func(d *db.DB) error { return d.Postpone(ctx, 1007, epoch) }},

		// Jobs.
		{name: "TakeOver", do: func(d *db.DB) error { _, err := d.TakeOver(ctx); return err }},
		{name: "Backlog", do: func(d *db.DB) error { _, err := d.Backlog(ctx); return err }},
		{name: "Repo", do: func(d *db.DB) error { _, err := d.Repo(ctx, repo); return err }},
		{name: "Comment", do: func(d *db.DB) error { _, err := d.Comment(ctx, repo, 50); return err }},
		{name: "SetComment", do: func(d *db.DB) error { return d.SetComment(ctx, repo, 50, 7) }},
		{name: "UnfinishedCheck", do: func(d *db.DB) error { _, err := d.UnfinishedCheck(ctx, q, 50); return err }},
		{name: "SetUnfinishedCheck", do: func(d *db.DB) error { return d.SetUnfinishedCheck(ctx, q, 50, "commit") }},
		{name: "Version", do: func(d *db.DB) error { _, err := d.Version(ctx, q, 50); return err }},
		{name: "CountHours: when there is nothing to count", do: func(d *db.DB) error { _, err := d.CountHours(ctx); return err }, whole: []string{"queues", "queue_hours_counted"}},
		{name: "NextDelivery", do: func(d *db.DB) error { _, err := d.NextDelivery(ctx, epoch); return err }},
		{name: "ClaimDeliveries RecordDeliveries", do: func(d *db.DB) error {
			round, _, err := d.ClaimDeliveries(ctx, epoch, epoch.Add(time.Minute), func(account.Subscriber) int { return 8 })
			if err != nil || round.Subscriber.Number == 0 {
				return err
			}
			return d.RecordDeliveries(ctx, round, nil, account.Health{}, "")
		}},

		// The API and the pages.
		{name: "RecentQueue", do: func(d *db.DB) error { _, err := d.RecentQueue(ctx, w.org.ID, host, "acme", "app", "main"); return err }},
		{name: "FindQueue", do: func(d *db.DB) error { _, err := d.FindQueue(ctx, w.org.ID, host, "acme", "app", "main"); return err }},
		{name: "QueueNamed", do: func(d *db.DB) error { _, err := d.QueueNamed(ctx, host, "acme", "app", "main"); return err }},
		{name: "QueueFor", do: func(d *db.DB) error { _, err := d.QueueFor(ctx, repo, "main"); return err }},
		{name: "QueuesWith", do: func(d *db.DB) error { _, err := d.QueuesWith(ctx, repo, 50); return err }},
		{name: "Repository", do: func(d *db.DB) error { _, err := d.Repository(ctx, w.org.ID, host, "acme", "app"); return err }},
		{name: "RepositoryNamed", do: func(d *db.DB) error { _, err := d.RepositoryNamed(ctx, host, "acme", "repo77"); return err }},
		{name: "Places", do: func(d *db.DB) error { _, err := d.Places(ctx, []queue.RepoID{repo, 1007}); return err }},
		{name: "Organization", do: func(d *db.DB) error { _, _, err := d.Organization(ctx, "org7"); return err }},
		{name: "OrganizationName", do: func(d *db.DB) error { _, err := d.OrganizationName(ctx, q); return err }},
		{name: "OrganizationOf", do: func(d *db.DB) error { _, err := d.OrganizationOf(ctx, host, "acme", "app"); return err }},
		{name: "ListTokens", do: func(d *db.DB) error { _, err := d.ListTokens(ctx, 1007); return err }},
		{name: "Audit", do: func(d *db.DB) error { _, err := d.Audit(ctx, 1007, 0, 50); return err }},
		{name: "AuditOf", do: func(d *db.DB) error { _, err := d.AuditOf(ctx, q, 0, 50); return err }},
		{name: "Depths", do: func(d *db.DB) error { _, err := d.Depths(ctx, w.org.ID); return err }},
		{name: "Subscribers", do: func(d *db.DB) error { _, err := d.Subscribers(ctx, 1007); return err }},
		{name: "Subscriber Deliveries", do: func(d *db.DB) error {
			all, err := d.Subscribers(ctx, 1007)
			if err != nil {
				return err
			}
			_, err = d.Subscriber(ctx, 1007, all[0].ID)
			if err == nil {
				_, err = d.Deliveries(ctx, 1007, all[0].ID, 0, 50)
			}
			return err
		}},
		{name: "Listed", do: func(d *db.DB) error { _, err := d.Listed(ctx, w.queue); return err }},
		{name: "Entries", do: func(d *db.DB) error { _, err := d.Entries(ctx, q, queue.EntryPage{Take: 100}); return err }},
		{name: "Ended", do: func(d *db.DB) error { _, err := d.Ended(ctx, q, 20); return err }},
		{name: "Entry", do: func(d *db.DB) error { _, err := d.Entry(ctx, q, 50); return err }},
		{name: "Read: an active entry", do: func(d *db.DB) error { _, err := d.Read(ctx, q, 50); return err }},
		{name: "Read: one that has ended", do: func(d *db.DB) error { _, err := d.Read(ctx, q, 51); return err }},
		{name: "ReadPRs: several", do: func(d *db.DB) error { _, err := d.ReadPRs(ctx, q, 50, 51, 100); return err }},
		{name: "Timeline", do: func(d *db.DB) error { _, err := d.Timeline(ctx, q, 50); return err }},
		{name: "Run", do: func(d *db.DB) error { _, _, err := d.Run(ctx, q, "run50"); return err }},
		{name: "RunsOf", do: func(d *db.DB) error { _, err := d.RunsOf(ctx, q, 50, 20); return err }},
		{name: "ImpactedTargets", do: func(d *db.DB) error {
			_, _, _, err := d.ImpactedTargets(ctx, repo, []queue.Step{{PR: 50, Head: "head50"}, {PR: 51, Head: "head51"}})
			return err
		}},
		{name: "Tallies: an hour", do: func(d *db.DB) error { _, err := d.Tallies(ctx, q, epoch.Add(-time.Hour), epoch, false); return err }},
		{name: "EndedBetween: an hour", do: func(d *db.DB) error {
			_, err := d.EndedBetween(ctx, q, epoch.Add(-time.Hour), epoch, 100)
			return err
		}},

		// Tests: reports in, and what is asked about them.
		{name: "AddUpload WaitingUpload EnterUpload", do: func(d *db.DB) (err error) {
			u := upload(1)
			if number, _, err = d.AddUpload(ctx, u, sha256.Sum256([]byte("new")), []byte("<testsuites/>")); err != nil {
				return err
			}
			if u, _, err = d.WaitingUpload(ctx, number); err != nil {
				return err
			}
			return d.EnterUpload(ctx, u, flaky.Read{Tests: []flaky.Seen{{Test: storedTest(0, 7), ID: test, Result: flaky.Result{Test: test, Failed: true}}}})
		}},
		{name: "AddBundle", do: func(d *db.DB) error {
			_, _, err := d.AddBundle(ctx, uuid.New(), upload(2), sha256.Sum256([]byte("bundle")), []byte("bundle"))
			return err
		}},
		{name: "TestUpload", do: func(d *db.DB) error { _, err := d.TestUpload(ctx, tested, number); return err }},
		{name: "ListUploads", do: func(d *db.DB) error { _, err := d.ListUploads(ctx, tested, 0, false, 100); return err }},
		{name: "Excused", do: func(d *db.DB) error {
			_, err := d.Excused(ctx, tested, []flaky.AskedFailure{{Tests: []uuid.UUID{test}, Text: "no answer"}}, epoch)
			return err
		}},
		{name: "QuarantineOn", do: func(d *db.DB) error { _, err := d.QuarantineOn(ctx, tested); return err }},
		{name: "PublicRepository", do: func(d *db.DB) error {
			if _, _, err := d.PublicRepository(ctx, "nobody's"); !errors.Is(err, queue.ErrNotFound) {
				return fmt.Errorf("found somebody: %w", err)
			}
			return nil
		}},
		{name: "CountTests", do: func(d *db.DB) error { _, err := d.CountTests(ctx, tested); return err }},
		{name: "ListTests", do: func(d *db.DB) error {
			_, err := d.ListTests(ctx, tested, flaky.Filter{Show: flaky.ShowNotable}, 100)
			return err
		}},
		{name: "TestPage", do: func(d *db.DB) error {
			_, _, err := d.TestPage(ctx, tested, flaky.Selection{Show: flaky.ShowQuarantined}, 0, 100, epoch)
			return err
		}},
		{name: "TestDetails", do: func(d *db.DB) error { _, err := d.TestDetails(ctx, tested, test, epoch); return err }},
		{name: "TestDays", do: func(d *db.DB) error {
			_, err := d.TestDays(ctx, tested, []int64{7, 8}, epoch.AddDate(0, 0, -30), epoch)
			return err
		}},
		{name: "TestFailures", do: func(d *db.DB) error { _, err := d.TestFailures(ctx, tested, test, 20); return err }},
		{name: "TestHistory", do: func(d *db.DB) error { _, _, err := d.TestHistory(ctx, tested, test); return err }},
		{name: "FailureKinds", do: func(d *db.DB) error { _, err := d.FailureKinds(ctx, tested, test, epoch, 20); return err }},
	}
}
