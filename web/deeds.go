package web

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/julienschmidt/httprouter"

	"signalbox/account"
	"signalbox/queue"
)

// What people do on pages. Each deed is one POST of a form: it is checked like
// the command of the same name, becomes a wish of the queue, and leads back to
// the page, which says what came of it.

// formAtMost bounds a form, in bytes.
const formAtMost = 256 << 10

// patience is how long a visitor waits for the queue's decision.
const patience = 10 * time.Second

// refusal is what a visitor may not do, or cannot.
type refusal struct {
	status  int
	message string
	back    string // address of the page that it was asked on
}

func (r refusal) Error() string { return r.message }

func forbidden(need account.Right) refusal {
	return refusal{status: http.StatusForbidden, message: "This takes " + rightNames[need] + " on the repository, which you do not have."}
}

var rightNames = map[account.Right]string{
	account.ReadRight: "read access", account.WriteRight: "write access", account.AdminRight: "administrator rights",
}

// form lets a request pass that is a form of ours.
func (h *Handler) form(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.checkForm(w, r); err != nil {
			h.refuse(w, r, err)
			return
		}
		next(w, r)
	})
}

// deed turns what somebody does into an answer: where to go, or why not.
func (h *Handler) deed(do func(*http.Request) (to string, err error)) http.Handler {
	return h.form(func(w http.ResponseWriter, r *http.Request) {
		to, err := do(r)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	})
}

// checkForm reads a form and sees to it that it is one of ours, sent from one
// of our pages: the browser says where a request comes from, and the form
// carries what only our page knows.
func (h *Handler) checkForm(w http.ResponseWriter, r *http.Request) error {
	if err := h.crossOrigin.Check(r); err != nil {
		return refusal{status: http.StatusForbidden, message: "This was sent from another site, and nothing was done."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, formAtMost)
	if err := r.ParseForm(); err != nil {
		return refusal{status: http.StatusBadRequest, message: "The form cannot be read. Nothing was done."}
	}
	v := visitorOf(r.Context())
	if v.csrf == "" {
		return refusal{status: http.StatusForbidden, message: "These pages can only be read: nobody signs in here."}
	}
	if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("csrf")), []byte(v.csrf)) != 1 {
		return refusal{status: http.StatusForbidden, message: "The page that this was sent from is too old. Open it again and repeat."}
	}
	return nil
}

// said are the texts of "done" in an address: what came of a deed.
var said = map[string]string{
	"submitted": "It is queued.",
	"cancelled": "It was taken out of the queue.",
	"restarted": "It is tested again.",
	"priority":  "Its priority has been changed. It counts from its next group on.",
	"changed":   "The settings have been changed.",
	"state":     "The state of the queue has been changed.",
	"looked":    "The set-up is looked at again. What is found stands here in a moment.",
	"same":      "Nothing was different, so nothing was changed.",
	"revoked":   "The token is worthless now.",

	"tested":       "A test is on its way. What came of it stands below in a moment.",
	"told-on":      "It is told again what happens.",
	"told-off":     "It is told nothing any more.",
	"told-changed": "It has been changed.",
	"redelivered":  "It is delivered once more.",
	"untold":       "It has been deleted.",
	"created":      "The queue is made. Its set-up on the host is looked at now; what is found stands here in a moment.",
	"switched":     "Automatic quarantine has been switched.",
	"decided":      "Your decision counts from now on.",
}

// told is what a page says about the deed that led to it.
func told(r *http.Request) string { return said[r.URL.Query().Get("done")] }

// pullRequestDeed does what a form of a pull request's page asks for.
func (h *Handler) pullRequestDeed(r *http.Request) (string, error) {
	q, err := h.named(r)
	if err != nil {
		return "", err
	}
	p := httprouter.ParamsFromContext(r.Context())
	number, ok := prNumber(p.ByName("number"))
	if !ok {
		return "", queue.ErrNotFound
	}
	return h.act(r, q, number, p.ByName("deed"))
}

// prNumber reads the number of a pull request.
func prNumber(text string) (number int64, ok bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && number > 0 && number <= queue.MaxNumber
}

// submitByNumber queues a pull request that is named in the form of the
// queue's page.
func (h *Handler) submitByNumber(r *http.Request) (string, error) {
	q, err := h.named(r)
	if err != nil {
		return "", err
	}
	number, ok := prNumber(r.PostForm.Get("number"))
	if !ok {
		return "", refusal{http.StatusBadRequest, "Give the number of a pull request, such as 12.", QueueURL("", q.Repo, q.Branch)}
	}
	return h.act(r, q, number, "submit")
}

// act has a wish about a pull request decided.
func (h *Handler) act(r *http.Request, q queue.Queue, number int64, deed string) (string, error) {
	page := PRURL("", q.Repo, q.Branch, number)
	v, now := visitorOf(r.Context()), h.clock().UTC().Truncate(time.Microsecond)
	var done string
	var fact queue.Fact
	var err error
	switch deed {
	case "submit", "priority":
		done = map[string]string{"submit": "submitted", "priority": "priority"}[deed]
		fact, err = h.submission(r, q, number, now)
	case "cancel":
		done, fact = "cancelled", queue.CancelRequested{PR: number, By: v.actor, Via: v.via(), At: now}
		err = h.need(r.Context(), q.Repo, account.WriteRight)
	case "restart":
		done, fact = "restarted", queue.RestartRequested{PR: number, By: v.actor, Via: v.via(), At: now}
		err = h.need(r.Context(), q.Repo, account.WriteRight)
	default:
		err = queue.ErrNotFound
	}
	if err == nil {
		err = h.wish(r.Context(), q, fact)
	}
	return page + "&done=" + done, returning(err, page)
}

// need asks the host for the visitor's right at this moment.
func (h *Handler) need(ctx context.Context, repo queue.Repo, need account.Right) error {
	right, err := h.right(ctx, repo, true)
	if err != nil {
		h.log.Warn("the host did not say what somebody may do", "error", err)
		return refusal{status: http.StatusServiceUnavailable, message: "The host did not say what you may do. Nothing was done; try again in a moment."}
	}
	if right < need {
		return forbidden(need)
	}
	return nil
}

// submission is the wish of a form to queue a pull request.
func (h *Handler) submission(r *http.Request, q queue.Queue, number int64, now time.Time) (queue.Fact, error) {
	priority, given, err := priorityIn(r)
	if err != nil {
		return nil, err
	}
	force := r.PostForm.Get("force") != ""
	needed := account.WriteRight
	if force || given && priority == queue.Urgent {
		needed = account.AdminRight
	}
	if err := h.need(r.Context(), q.Repo, needed); err != nil {
		return nil, err
	}
	seen, gone, err := h.host.PullRequest(r.Context(), q.Repo, number)
	switch {
	case gone:
		return nil, refusal{status: http.StatusNotFound, message: fmt.Sprintf("The host has no pull request #%d.", number)}
	case err != nil:
		h.log.Warn("a pull request could not be read", "pr", number, "error", err)
		return nil, refusal{status: http.StatusServiceUnavailable, message: "The host does not answer. Nothing was done; try again in a moment."}
	}
	v := visitorOf(r.Context())
	return queue.Submitted{
		PullRequest: seen.PullRequest, ID: queue.EntryID(uuid.NewString()), By: v.actor, Via: v.via(),
		Priority: priority, PriorityGiven: given, NoBatch: r.PostForm.Get("alone") != "", Force: force, At: now,
	}, nil
}

func priorityIn(r *http.Request) (value int64, given bool, err error) {
	text := r.PostForm.Get("priority")
	if text == "" {
		return queue.Medium, false, nil
	}
	value, ok := queue.ParsePriority(text)
	if !ok {
		return 0, false, refusal{status: http.StatusBadRequest, message: "Priority must be urgent, high, medium, low, lowest, or a number from 0 to 255."}
	}
	return value, true, nil
}

// wish has a queue decide on a fact, and waits for that.
func (h *Handler) wish(ctx context.Context, q queue.Queue, fact queue.Fact) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, _, err := h.store.Wish(ctx, q.Repo.ID, q.ID, fact)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refusal{status: http.StatusServiceUnavailable, message: "The queue has not decided yet. The page will show what came of it."}
	case err != nil:
		return fmt.Errorf("wish %s: %w", fact.Kind(), err)
	case answer.Refused != "":
		return refusal{status: http.StatusConflict, message: answer.Message}
	}
	return nil
}

// deeds are what a reader may do on a page.
type deeds struct {
	CSRF       string
	Act, Admin bool // the rights of a writer, and of an administrator
	Priorities []string
	Path       string // of the queue; a deed's name and Query follow
	Query      string
}

// deedsOn says what the reader may do in a repository. It goes by the right that
// is known; a deed asks the host again.
func (h *Handler) deedsOn(ctx context.Context, repo queue.Repo) (deeds, error) {
	v := visitorOf(ctx)
	if v.csrf == "" {
		return deeds{}, nil
	}
	right, err := h.right(ctx, repo, false)
	if err != nil {
		return deeds{}, err
	}
	return deeds{CSRF: v.csrf, Act: right >= account.WriteRight, Admin: right >= account.AdminRight, Path: RepoURL("", repo)}, nil
}

// deedsOf says what the reader may do in a queue.
func (h *Handler) deedsOf(ctx context.Context, q queue.Queue) (deeds, error) {
	d, err := h.deedsOn(ctx, q.Repo)
	if err != nil || d.CSRF == "" {
		return d, err
	}
	d.Query = "?branch=" + url.QueryEscape(q.Branch)
	for _, name := range queue.PriorityNames() {
		if value, _ := queue.ParsePriority(name); value != queue.Urgent || d.Admin {
			d.Priorities = append(d.Priorities, name)
		}
	}
	return d, nil
}
