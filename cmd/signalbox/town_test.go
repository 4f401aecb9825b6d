package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"signalbox/account"
	"signalbox/api"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
	"signalbox/gitprovider/githubspec"
	"signalbox/queue"
	"signalbox/queue/engine"
	"signalbox/queue/sim"
)

// town is a sim.Town made of the whole service: the simulated GitHub with real
// git, a Postgres of its own, and one server as serve starts it. The server's
// clock stands still but for Pass.
type town struct {
	ctx     context.Context
	t       *testing.T
	clock   *handClock
	sim     *githubsim.Server
	name    string // of the repository now, "owner/name"
	hook    string // where webhooks go
	first   string // the first commit of main
	thread  int64  // the conversation begun last
	ruleset int64  // the ruleset made last
	landed  []int64
	uploads int64
	service *service
	gate    *gate
	queue   queue.Queue
	token   string
	reviews bool // a pull request needs an approval here
	opened  []int64
	authors map[int64]string
	heads   map[int64]string
	refused map[int64]string
	log     *lockedBuffer
	calls   calls
	dsn     string
	dataDir string
	// troubled says that things go wrong here: jobs may fail, and are worked
	// again when their time comes on the town's clock.
	troubled bool
	asleep   map[int64]time.Time // jobs that sleep, and until when on our clock
}

var _ sim.Town = (*town)(nil)

const townRepo = "acme/app"

// newTown starts everything and makes the queue.
func newTown(ctx context.Context, t *testing.T, settings queue.Settings, reviews bool) (*town, error) {
	w := &town{ctx: ctx, t: t, name: townRepo, clock: newHandClock(), reviews: reviews, authors: map[int64]string{}, heads: map[int64]string{}, refused: map[int64]string{}, log: &lockedBuffer{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log:\n%s", w.log.tail(12000))
		}
	})
	var err error
	w.sim, err = githubsim.Start(context.Background(), githubsim.Config{
		DataDir: t.TempDir(), Now: w.clock.host, MergeableDelay: -1, Log: log,
		Around: func(h http.Handler) http.Handler {
			return w.calls.around(githubspec.Calls(githubspec.Valid, func(err error) { t.Error(err) })(h))
		},
		Sent: func(event string, payload []byte) {
			if err := githubspec.Webhook(event, payload); err != nil {
				t.Error(err)
			}
		},
	}, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.Cleanup(w.sim.Close)
	w.dsn, w.dataDir = dbtest.DSN(t), t.TempDir()
	t.Cleanup(func() {
		if err := w.stopServer(); err != nil {
			t.Error(err)
		}
	})
	if err := w.startServer(); err != nil {
		return nil, err
	}
	if err := w.makeRepo(); err != nil {
		return nil, err
	}
	return w, w.makeQueue(settings)
}

// startServer starts a server that remembers nothing but what is stored.
func (w *town) startServer() error {
	log := slog.New(slog.NewTextHandler(w.log, nil))
	cfg, err := settingsFor(w.sim, w.dsn, w.dataDir, "secret").check(log)
	if err != nil {
		return err
	}
	d, err := openDatabase(w.ctx, cfg.storageConfig, w.clock.Now, log)
	if err != nil {
		return err
	}
	w.gate = newGate(d.DB)
	if w.service, err = newService(cfg, d, replacements{clock: w.clock, store: w.gate}); err != nil {
		return err
	}
	where, err := w.service.start(w.ctx)
	if err != nil {
		return err
	}
	w.hook = "http://" + where.main + "/webhook"
	w.sim.SetWebhook(w.hook, "secret")
	return nil
}

// stopServer stops the server and closes its database.
func (w *town) stopServer() error {
	if w.service == nil {
		return nil
	}
	err := w.service.stop()
	return errors.Join(err, w.service.db.Close())
}

// crash cuts off whatever the server is doing, and starts another one.
func (w *town) crash() error {
	w.service.halt()
	if err := w.service.jobs.StopAndCancel(w.ctx); err != nil {
		return err
	}
	if err := w.stopServer(); err != nil {
		return err
	}
	w.service = nil
	// A new process begins later than the host ends what the old one asked of
	// it. What the host does after we have looked cannot be known.
	for w.calls.underWay.Load() > 0 {
		if err := w.breathe(); err != nil {
			return err
		}
	}
	return w.startServer()
}

// settingsFor are those of a server on a simulated GitHub.
func settingsFor(s *githubsim.Server, dsn, dataDir, secret string) settings {
	return settings{
		storage: storage{DatabaseURL: dsn, DatabaseConns: "12", DataDir: dataDir},
		gitHub: gitHub{
			GitHubURL: s.URL(), GitHubLimits: "off", AppSlug: "signalbox", Host: demoHost, AppID: fmt.Sprint(s.AppID()),
			AppPrivateKey: string(s.AppKeyPEM()), WebhookSecret: secret,
		},
		DashboardAuth: "none", DashboardPublic: "no", Listen: "127.0.0.1:0", MetricsListen: "off", CommandPrefixes: "/signalbox",
		APIRate: "0", APIBurst: "200", Deciders: "2", SubscriberNetworks: "127.0.0.1",
	}
}

func (w *town) makeRepo() error {
	// Alice gives all commands, also those that only administrators may.
	if err := w.sim.CreateRepo(w.ctx, githubsim.NewRepo{Owner: "acme", Name: "app", Creator: "alice"}); err != nil {
		return err
	}
	log, err := w.sim.Log(w.ctx, w.name, "main")
	if err != nil {
		return err
	}
	w.first = log[0].SHA
	if _, err := w.sim.Push(w.ctx, githubsim.Push{Repo: w.name, Branch: "release", Author: "alice", Message: "Begin a release", Files: filesOf(map[string]string{"RELEASE": "1\n"})}); err != nil {
		return err
	}
	if w.reviews {
		if err := w.sim.SetPermission(w.name, "reviewer", "write"); err != nil {
			return err
		}
		return w.sim.ProtectBranch(githubsim.Protect{Repo: w.name, Branch: "main", Reviews: 1, AppMayPush: true})
	}
	return nil
}

func (w *town) makeQueue(settings queue.Settings) error {
	if err := w.settle(); err != nil {
		return err
	}
	d := w.service.db
	_, secret, err := createToken(w.ctx, d.DB, "acme", "town", account.Admin, time.Time{})
	if err != nil {
		return err
	}
	org, err := d.CreateOrganization(w.ctx, "acme")
	if err != nil {
		return err
	}
	w.token = secret
	w.queue, err = d.CreateQueue(w.ctx, org.ID, demoHost, "acme", "app", "main", settings, w.clock.Now())
	return err
}

// Open opens a pull request; it must get that number.
func (w *town) Open(number int64, author string, change map[string]string) error {
	return w.openOn("", number, author, change)
}

// OpenOn opens a pull request on top of the branch of another.
func (w *town) OpenOn(number, below int64, author string, change map[string]string) error {
	return w.openOn(branchName(below), number, author, change)
}

// DeleteBranch deletes the branch of a pull request.
func (w *town) DeleteBranch(number int64) error {
	_, err := w.sim.Push(w.ctx, githubsim.Push{Repo: w.name, Branch: branchName(number), Author: "alice", Delete: true})
	return err
}

func (w *town) openOn(base string, number int64, author string, change map[string]string) error {
	opened, err := w.sim.OpenPull(w.ctx, githubsim.OpenPull{
		Repo: w.name, Title: fmt.Sprintf("Change %d", number), Author: author, Base: base, Branch: branchName(number), Files: townFiles(change),
	})
	if err != nil {
		return err
	}
	if int64(opened.Number) != number {
		return fmt.Errorf("#%d became #%d", number, opened.Number)
	}
	w.opened, w.authors[number], w.heads[number] = append(w.opened, number), author, opened.HeadSHA
	return w.Block(number, false)
}

func branchName(number int64) string { return fmt.Sprintf("change-%d", number) }

// townFiles is a change as scripts write it: "-path" removes a file.
func townFiles(change map[string]string) map[string]*string {
	files := map[string]*string{}
	for path, content := range change {
		if name, removed := strings.CutPrefix(path, "-"); removed {
			files[name] = nil
		} else {
			files[path] = &content
		}
	}
	return files
}

// Push pushes to a pull request's branch.
func (w *town) Push(number int64, change map[string]string) error {
	sha, err := w.sim.Push(w.ctx, githubsim.Push{Repo: w.name, Branch: branchName(number), Author: w.authors[number], Message: "More", Files: townFiles(change)})
	w.heads[number] = sha
	return err
}

// Close closes a pull request.
func (w *town) Close(number int64) error {
	return w.sim.ClosePull(w.name, int(number), w.authors[number])
}

func (w *town) edit(e githubsim.Edit, number int64) error {
	e.Repo, e.Number, e.Author = w.name, int(number), w.authors[number]
	return w.sim.EditPull(e)
}

// Reopen opens a closed pull request again.
func (w *town) Reopen(number int64) error {
	open := "open"
	return w.edit(githubsim.Edit{State: &open}, number)
}

// Draft makes a pull request a draft, or ready.
func (w *town) Draft(number int64, draft bool) error {
	return w.edit(githubsim.Edit{Draft: &draft}, number)
}

// Retarget gives a pull request another base.
func (w *town) Retarget(number int64, base string) error {
	return w.edit(githubsim.Edit{Base: &base}, number)
}

// Block takes the approval of a pull request away, or gives it, where one is
// needed.
func (w *town) Block(number int64, blocked bool) error {
	if !w.reviews {
		return nil
	}
	state := "approved"
	if blocked {
		state = "dismissed"
	}
	return w.sim.Review(w.name, int(number), "reviewer", state, "")
}

// Green has CI pass on the head of a pull request.
func (w *town) Green(number int64) error {
	return w.sim.Report(w.ctx, githubsim.Report{Repo: w.name, SHA: w.heads[number], Name: "ci", Conclusion: "success"})
}

// Targets uploads the impacted targets of a pull request's head commit.
func (w *town) Targets(number int64, names []string) error {
	return w.api().Call(w.ctx, "setImpactedTargets", map[string]any{
		"pr": map[string]any{"number": number, "sha": w.heads[number]}, "impactedTargets": names,
	}, nil)
}

// api calls the API about the town's queue.
func (w *town) api() *api.Queue {
	q := newClient(whereabouts{API: "http://" + w.service.main.address() + "/v1", Org: "acme", Host: demoHost}, w.token, "app")
	q.Branch = w.queue.Branch
	return q
}

// MergeByHand presses the host's button.
func (w *town) MergeByHand(number int64) error {
	_, err := w.sim.MergePull(w.ctx, w.name, int(number), "alice", "merge")
	return err
}

// PushMain pushes past the queue.
func (w *town) PushMain(change map[string]string) error {
	_, err := w.sim.Push(w.ctx, githubsim.Push{Repo: w.name, Branch: "main", Author: "alice", Message: "Straight to main", Files: townFiles(change)})
	return err
}

// Refuse has the host refuse to land a pull request: from when its tests pass
// until it has been refused, there is a rule that lets nobody update main.
func (w *town) Refuse(number int64, why string) error {
	w.refused[number] = why
	return nil
}

// Hang has the network hold back the next call that merges a pull request, and the
// host refuse the one after it.
func (w *town) Hang(number int64) error {
	path := fmt.Sprintf("/repos/%s/pulls/%d/merge", w.name, number)
	return w.sim.Fail(githubsim.Fault{Action: "late", Method: "PUT", Path: path}, githubsim.Fault{Action: "fail", Status: 405, Method: "PUT", Path: path})
}

// Arrive has the calls arrive that the network held back.
func (w *town) Arrive() error {
	if w.sim.Arrive() == 0 {
		return errors.New("nothing hangs")
	}
	return nil
}

// Merge comments /merge. It waits until the queue has heard of it, and lets a
// moment pass, so that submissions come in the order of the script.
func (w *town) Merge(number int64, by string, wish sim.Wish) error {
	return w.submit("/merge", number, by, wish)
}

// Stack comments /signalbox stack, and waits likewise.
func (w *town) Stack(number int64, by string, wish sim.Wish) error {
	return w.submit("/signalbox stack", number, by, wish)
}

func (w *town) submit(comment string, number int64, by string, wish sim.Wish) error {
	before, err := w.submissions(number)
	if err != nil {
		return err
	}
	if err := w.ask(comment, number, by, wish); err != nil {
		return err
	}
	for {
		n, err := w.submissions(number)
		if err != nil || n > before {
			w.clock.advance(time.Millisecond)
			return err
		}
		if err := w.breathe(); err != nil {
			return fmt.Errorf("wait for the submission of #%d: %w", number, err)
		}
	}
}

func (w *town) submissions(number int64) (n int64, err error) {
	err = w.service.db.SQL().QueryRowContext(w.ctx, `SELECT count(*) FROM inbox WHERE kind = 'submitted' AND pr = $1`, number).Scan(&n)
	return n, err
}

// ask comments. Where the base branch leads to no queue a comment is answered
// with just that, so there it is the fact that a comment becomes whose pull
// request gets another base a moment later.
func (w *town) ask(comment string, number int64, by string, wish sim.Wish) error {
	if wish.Title != "" {
		comment += fmt.Sprintf(" -t %q", wish.Title)
	}
	if wish.Priority != nil {
		comment += " --priority=" + queue.PriorityName(*wish.Priority)
	}
	if wish.NoBatch {
		comment += " --no-batch"
	}
	if wish.Force {
		comment += " --force"
	}
	repo, err := w.service.db.Repo(w.ctx, w.queue.Repo.ID)
	if err != nil {
		return err
	}
	seen, err := w.service.host.PullRequest(w.ctx, repo, number)
	if err != nil {
		return err
	}
	if seen.Base != "release" {
		_, err := w.sim.Comment(w.name, int(number), by, comment)
		return err
	}
	return w.service.db.Append(w.ctx, repo.ID, w.queue.ID, queue.Submitted{
		PullRequest: seen.PullRequest, ID: queue.EntryID(uuid.NewString()), By: queue.Actor{Login: by, ID: 1}, Via: queue.ViaUser,
		Priority: queue.Medium, At: w.clock.Now(),
	})
}

// CancelPR comments /cancel.
func (w *town) CancelPR(number int64, by string) error {
	_, err := w.sim.Comment(w.name, int(number), by, "/cancel")
	return err
}

// RestartPR comments /signalbox restart.
func (w *town) RestartPR(number int64, by string) error {
	_, err := w.sim.Comment(w.name, int(number), by, "/signalbox restart")
	return err
}

// Change calls updateQueue. That a queue refuses is no error here: the story
// shows that nothing has changed.
func (w *town) Change(c queue.Change) error {
	text, err := json.Marshal(c)
	body := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- w.api().Call(w.ctx, "updateQueue", body, nil) }() // it waits for the decision
	for {
		select {
		case err := <-done:
			var refused *api.Error
			if errors.As(err, &refused) && refused.Status == http.StatusConflict {
				return nil // what became of it is in the story
			}
			return err
		default:
			if err := w.settle(); err != nil {
				return err
			}
		}
	}
}

// CI reports on the commit of the newest run that tests a pull request.
func (w *town) CI(number int64, check, result string) error {
	commit, err := w.testedCommit(number)
	if err != nil {
		return err
	}
	report := func() error {
		return w.sim.Report(w.ctx, githubsim.Report{Repo: w.name, SHA: commit, Name: check, Conclusion: result})
	}
	if w.refused[number] == "" {
		return report()
	}
	rule, err := w.sim.AddRuleset(githubsim.NewRuleset{Repo: w.name, Name: "nobody", Rules: []githubsim.Rule{{Type: "update"}}})
	if err != nil {
		return err
	}
	if err := errors.Join(report(), w.settle()); err != nil {
		return err
	}
	return w.sim.RemoveRuleset(w.name, rule)
}

// Hedge reports on the newest run that tests a pull request without another.
func (w *town) Hedge(number, without int64, check, result string) error {
	var commit string
	err := w.service.db.SQL().QueryRowContext(w.ctx, `
		SELECT r.commit FROM runs r JOIN entries e ON e.queue_id = r.queue_id AND e.id = ANY(r.members)
			JOIN entries o ON o.queue_id = r.queue_id AND o.id::text = r.hedge
		WHERE r.queue_id = $1 AND e.pr = $2 AND o.pr = $3 AND r.commit <> ''
		ORDER BY r.state IN ('building', 'testing') DESC, r.asked_at DESC, r.id LIMIT 1`, int64(w.queue.ID), number, without).Scan(&commit)
	if err != nil {
		return fmt.Errorf("find the run that tests #%d without #%d: %w", number, without, err)
	}
	return w.sim.Report(w.ctx, githubsim.Report{Repo: w.name, SHA: commit, Name: check, Conclusion: result})
}

// Quarantine switches quarantine on, and has these checks be ones whose jobs
// upload results.
func (w *town) Quarantine(checks []string) error {
	if err := w.service.db.SetAutomatic(w.ctx, w.queue.Repo.ID, true, "alice", w.clock.Now()); err != nil {
		return err
	}
	for _, check := range checks {
		if _, err := w.service.db.SQL().ExecContext(w.ctx, `INSERT INTO test_checks (repository_id, name, seen_at) VALUES ($1, $2, $3)`,
			int64(w.queue.Repo.ID), check, w.clock.Now()); err != nil {
			return err
		}
	}
	return nil
}

// Results tells what an upload said, as the reading of one does.
func (w *town) Results(number int64, f queue.TestResults) error {
	commit, err := w.testedCommit(number)
	if err != nil {
		return err
	}
	f.Commit = commit
	w.uploads++
	if f.Upload == 0 {
		f.Upload = w.uploads
	}
	return w.service.db.Append(w.ctx, w.queue.Repo.ID, 0, f)
}

// Pass lets time pass, stopping wherever it alone changes a decision.
func (w *town) Pass(d time.Duration) error {
	end := w.clock.Now().Add(d)
	for {
		if err := w.settle(); err != nil {
			return err
		}
		next, err := w.service.db.NextWake(w.ctx)
		if err != nil {
			return err
		}
		if w.troubled {
			if next, err = w.nextJob(next); err != nil {
				return err
			}
		}
		if next.IsZero() || next.After(end) {
			break
		}
		w.clock.set(next)
	}
	w.clock.set(end)
	return w.settle()
}

// nextJob is when the first job that failed or sleeps is to be worked again,
// if that is before next.
func (w *town) nextJob(next time.Time) (time.Time, error) {
	var due sql.NullTime
	err := w.service.db.SQL().QueryRowContext(w.ctx, `SELECT min(scheduled_at) FROM river_job WHERE state = 'retryable'`).Scan(&due)
	for _, at := range append(slices.Collect(maps.Values(w.asleep)), due.Time.UTC()) {
		if at.After(w.clock.Now()) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, err
}

// promote has jobs worked whose time has come on our clock. A job that failed
// has its time on our clock; one that sleeps does so for a span of the wall's,
// because River knows no other.
func (w *town) promote() error {
	rows, err := w.service.db.SQL().QueryContext(w.ctx, `SELECT id, extract(epoch FROM scheduled_at - now()) FROM river_job WHERE state = 'scheduled'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	before := w.asleep
	w.asleep = map[int64]time.Time{}
	awake := []int64{}
	for rows.Next() {
		var id int64
		var seconds float64
		if err := rows.Scan(&id, &seconds); err != nil {
			return err
		}
		at, known := before[id]
		if !known {
			at = w.clock.Now().Add(time.Duration(seconds * float64(time.Second)))
		}
		if at.After(w.clock.Now()) {
			w.asleep[id] = at
		} else {
			awake = append(awake, id)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = w.service.db.SQL().ExecContext(w.ctx, `
		WITH due AS (
			UPDATE river_job SET state = 'available', scheduled_at = now()
			WHERE state = 'retryable' AND scheduled_at <= $1 OR state = 'scheduled' AND id = ANY($2) RETURNING queue
		)
		SELECT pg_notify('river_insert', json_build_object('queue', queue)::text) FROM (SELECT DISTINCT queue FROM due) q`, w.clock.Now(), pq.Array(awake))
	return err
}

// Clock is the time of the service.
func (w *town) Clock() time.Time { return w.clock.Now() }

// Main lists the pull requests of main's commits, oldest first.
func (w *town) Main() ([]int64, error) {
	log, err := w.sim.Log(w.ctx, w.name, "main")
	if errors.Is(err, githubsim.ErrUnknown) {
		return w.landed, nil // what is gone had this
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(log)
	var list []int64
	for _, c := range log[1:] {
		list = append(list, int64(c.PR))
	}
	w.landed = list
	return list, nil
}

// Timeline are all moves of all pull requests, as they were saved.
func (w *town) Timeline() ([]queue.Move, error) {
	rows, err := w.service.db.SQL().QueryContext(w.ctx, `
		SELECT pr, from_state, to_state, reason, message, run_id FROM timeline WHERE queue_id = $1 ORDER BY id`, int64(w.queue.ID))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var moves []queue.Move
	for rows.Next() {
		var m queue.Move
		if err := rows.Scan(&m.PR, &m.From, &m.To, &m.Reason, &m.Message, &m.Run); err != nil {
			return nil, err
		}
		moves = append(moves, m)
	}
	return moves, rows.Err()
}

// Window is the queue with every pull request and every run that moves name.
func (w *town) Window() (*queue.Snapshot, error) {
	d := w.service.db
	s, err := d.Read(w.ctx, w.queue.ID, w.opened...)
	if err != nil {
		return nil, err
	}
	moves, err := w.Timeline()
	if err != nil {
		return nil, err
	}
	runs := map[queue.RunID]*queue.Run{}
	for _, m := range moves {
		if m.Run == "" || s.Runs[m.Run] != nil || runs[m.Run] != nil {
			continue
		}
		run, _, err := d.Run(w.ctx, w.queue.ID, m.Run)
		if err != nil {
			return nil, err
		}
		runs[m.Run] = &run
	}
	maps.Copy(s.Runs, runs)
	return s, nil
}

// breathe lets the others work between two looks.
func (w *town) breathe() error {
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// look is what settle sees: whether something is left to do, and how much has
// been done.
type look struct {
	busy                  string // what is being done; "" = nothing
	undecided             string // what a decision waits for; "" = nothing
	facts, jobs, webhooks int64
	moves                 int64 // of the gate, before the rest was seen
}

// settle waits until nothing is left to do at this moment: no webhook is under
// way, no job open, no fact unread, no queue due. Like the world of package
// sim it lets the queue decide only when everything that came of the last
// decision is known, so that stories do not depend on which job is faster.
// Work makes other work before it is done, so two looks that find nothing and
// the same history are enough.
func (w *town) settle() error {
	var last look
	begin := time.Now()
	for first := true; ; first = false {
		if w.troubled {
			if err := w.promote(); err != nil {
				return err
			}
			if last.busy != "" && time.Since(begin) > time.Second {
				w.clock.skip() // a job waits for the clock, and we for the job
				begin = time.Now()
			}
		}
		now, err := w.look()
		if err != nil {
			return fmt.Errorf("wait until nothing is left to do: %w (last: %s %s)", err, last.busy, last.undecided)
		}
		quiet := now.busy == "" && !first && now == last
		last = now
		switch {
		case quiet && now.undecided == "":
			return nil
		case quiet:
			if err := w.gate.open(w.ctx, now.moves); err != nil {
				return err
			}
		case now.busy == "":
			continue // look once more
		}
		if err := w.breathe(); err != nil {
			return fmt.Errorf("%w: %s %s", err, now.busy, now.undecided)
		}
	}
}

// gate is a database on which a queue decides only when it is let.
type gate struct {
	*db.DB
	// moves are two for each decision: one when it begins, one when it has
	// ended. A permit is for the decision that begins after that many.
	moves, permit atomic.Int64
}

func newGate(d *db.DB) *gate {
	g := &gate{DB: d}
	g.permit.Store(-1)
	return g
}

// UpdateDue decides once for each permit.
func (g *gate) UpdateDue(ctx context.Context, now time.Time, decide engine.Decide) (queue.ID, bool, error) {
	permit := g.permit.Load()
	if !g.moves.CompareAndSwap(permit, permit+1) {
		return 0, false, nil
	}
	defer g.moves.Add(1)
	return g.DB.UpdateDue(ctx, now, decide)
}

// open permits the next decision to who saw that many moves, and wakes the
// engine for it. While a decision is under way, or when one has come between,
// it permits nothing: what that one leads to has to be done first.
func (g *gate) open(ctx context.Context, seen int64) error {
	if seen%2 == 0 {
		g.permit.Store(seen)
	}
	_, err := g.SQL().ExecContext(ctx, `SELECT pg_notify('signalbox', $1)`, fmt.Sprintf("%d town", queue.AnyNews))
	return err
}

func (w *town) look() (look, error) {
	l := look{moves: w.gate.moves.Load()}
	if !w.sim.Delivered() {
		l.busy = "webhooks are under way"
	}
	if w.service.looking.Load() > 0 {
		l.busy = "the installations are being read"
	}
	l.webhooks = int64(len(w.sim.Deliveries()))
	var unrouted, unread, due, open, failed int64
	var trouble string
	err := w.service.db.SQL().QueryRowContext(w.ctx, `
		SELECT (SELECT count(*) FROM inbox WHERE routed_at IS NULL AND NOT waits),
			(SELECT count(*) FROM inbox_routes),
			(SELECT count(*) FROM queues WHERE wake_at <= $1),
			(SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'pending') OR state = 'scheduled' AND NOT $2),
			(SELECT count(*) FROM river_job WHERE state IN ('retryable', 'discarded') AND NOT $2),
			(SELECT COALESCE(max(errors[1]::text), '') FROM river_job WHERE state IN ('retryable', 'discarded')),
			(SELECT COALESCE(max(id), 0) FROM inbox), (SELECT COALESCE(max(id), 0) FROM river_job)`, w.clock.Now(), w.troubled).
		Scan(&unrouted, &unread, &due, &open, &failed, &trouble, &l.facts, &l.jobs)
	switch {
	case err != nil:
	case failed > 0:
		err = fmt.Errorf("a job failed, which no story has: %.2000s", trouble)
	case unrouted+open > 0:
		l.busy = fmt.Sprintf("%d facts without a queue, %d jobs open", unrouted, open)
	}
	if unread+due > 0 {
		l.undecided = fmt.Sprintf("%d facts unread, %d queues due", unread, due)
	}
	if !w.sim.Delivered() { // something happened meanwhile
		l.busy = "webhooks are under way"
	}
	return l, err
}

// handClock stands still until it is moved, and rings what is due then.
type handClock struct {
	mu      sync.Mutex
	now     time.Time
	hostNow time.Time
	waiting map[chan time.Time]time.Time
}

var _ engine.Clock = (*handClock)(nil)

func newHandClock() *handClock {
	now := time.Now().UTC().Truncate(time.Second)
	return &handClock{now: now, hostNow: now, waiting: map[chan time.Time]time.Time{}}
}

// Now is the present moment.
func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After rings when the clock has been moved by d.
func (c *handClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ring := make(chan time.Time, 1)
	if d <= 0 {
		ring <- c.now
	} else {
		c.waiting[ring] = c.now.Add(d)
	}
	return ring
}

// host is the host's clock. It must stay near the clock on the wall, because
// the App signs in by that one; it moves a second with each step of ours, so
// that what happens later is later.
func (c *handClock) host() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wall := time.Now().UTC(); wall.After(c.hostNow) {
		return wall
	}
	return c.hostNow
}

// skip moves the clock to when the first of those rings who wait for it.
func (c *handClock) skip() {
	c.mu.Lock()
	var next time.Time
	for _, at := range c.waiting {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	c.mu.Unlock()
	if !next.IsZero() {
		c.set(next)
	}
}

func (c *handClock) advance(d time.Duration) { c.set(c.Now().Add(d)) }

// set moves the clock forward.
func (c *handClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if step := now.Sub(c.now); step >= time.Second {
		wall := time.Now().UTC()
		if c.hostNow = c.hostNow.Add(time.Second); wall.After(c.hostNow) {
			c.hostNow = wall.Truncate(time.Second).Add(time.Second)
		}
	}
	if now.After(c.now) {
		c.now = now
	}
	for ring, at := range c.waiting {
		if !at.After(c.now) {
			ring <- c.now
			delete(c.waiting, ring)
		}
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*lockedBuffer)(nil)

// Write keeps a line.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.buf.String()
	return text[max(0, len(text)-n):]
}
