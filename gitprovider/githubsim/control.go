package githubsim

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// controls are the calls of the control API: what each decodes and does.
func (s *Server) controls() map[string]func(*http.Request) (any, error) {
	done := func(err error) (any, error) { return object{"ok": err == nil}, err }
	return map[string]func(*http.Request) (any, error){
		"POST /_control/repos": with(func(r *http.Request, in NewRepo) (any, error) {
			if err := s.CreateRepo(r.Context(), in); err != nil {
				return nil, err
			}
			return s.describe(in.Owner + "/" + in.Name)
		}),
		"POST /_control/pulls": with(func(r *http.Request, in OpenPull) (any, error) { return s.OpenPull(r.Context(), in) }),
		"POST /_control/push": with(func(r *http.Request, in Push) (any, error) {
			sha, err := s.Push(r.Context(), in)
			return object{"sha": sha}, err
		}),
		"POST /_control/comment": with(func(_ *http.Request, in deed) (any, error) {
			id, err := s.Comment(in.Repo, in.Number, in.Author, in.Body)
			return object{"id": id}, err
		}),
		"POST /_control/review": with(func(_ *http.Request, in deed) (any, error) {
			return done(s.Review(in.Repo, in.Number, in.Author, in.State, in.Body))
		}),
		"POST /_control/converse": with(func(_ *http.Request, in deed) (any, error) {
			id, err := s.Converse(in.Repo, in.Number, in.Author, in.Body)
			return object{"id": id}, err
		}),
		"POST /_control/resolve": with(func(_ *http.Request, in deed) (any, error) {
			return done(s.Resolve(in.Repo, in.Number, in.ID, in.Author, !in.Reopen))
		}),
		"POST /_control/close": with(func(_ *http.Request, in deed) (any, error) {
			return done(s.ClosePull(in.Repo, in.Number, in.Author))
		}),
		"POST /_control/merge": with(func(r *http.Request, in deed) (any, error) {
			sha, err := s.MergePull(r.Context(), in.Repo, in.Number, in.Author, in.Method)
			return object{"sha": sha}, err
		}),
		"POST /_control/edit":   with(func(_ *http.Request, in Edit) (any, error) { return done(s.EditPull(in)) }),
		"POST /_control/report": with(func(r *http.Request, in Report) (any, error) { return done(s.Report(r.Context(), in)) }),
		"POST /_control/workflow-run": with(func(r *http.Request, in WorkflowRun) (any, error) {
			id, err := s.SetWorkflowRun(r.Context(), in)
			return object{"id": id}, err
		}),
		"POST /_control/collaborators": with(func(_ *http.Request, in deed) (any, error) {
			return done(s.SetPermission(in.Repo, in.Login, in.Permission))
		}),
		"POST /_control/rulesets": with(func(_ *http.Request, in NewRuleset) (any, error) {
			id, err := s.AddRuleset(in)
			return object{"id": id}, err
		}),
		"POST /_control/protection": with(func(_ *http.Request, in Protect) (any, error) { return done(s.ProtectBranch(in)) }),
		"POST /_control/token": with(func(_ *http.Request, in deed) (any, error) {
			if _, err := s.person(in.Login); err != nil {
				return nil, err
			}
			return object{"token": s.UserToken(in.Login)}, nil
		}),
		"POST /_control/webhook": with(func(_ *http.Request, in struct{ URL, Secret string }) (any, error) {
			s.SetWebhook(in.URL, in.Secret)
			return done(nil)
		}),
		"POST /_control/faults":       with(func(_ *http.Request, in faultsInput) (any, error) { return done(s.setFaults(in)) }),
		"POST /_control/repository":   with(func(_ *http.Request, in RepoDeed) (any, error) { return done(s.changeRepo(in)) }),
		"POST /_control/installation": with(func(_ *http.Request, in InstallationDeed) (any, error) { return done(s.changeInstallation(in)) }),
		"POST /_control/callback": with(func(_ *http.Request, in struct{ URL string }) (any, error) {
			s.SetCallback(in.URL)
			id, secret := s.OAuthClient()
			return object{"clientId": id, "clientSecret": secret}, nil
		}),
		"GET /_control/log": func(r *http.Request) (any, error) {
			return s.Log(r.Context(), r.URL.Query().Get("repo"), r.URL.Query().Get("branch"))
		},
		"GET /_control/deliveries": func(*http.Request) (any, error) { return s.Deliveries(), nil },
	}
}

// deed is the body of the small control calls.
type deed struct {
	Repo       string `json:"repo"`
	Number     int    `json:"number"`
	Author     string `json:"author"`
	Body       string `json:"body"`
	State      string `json:"state"`
	Method     string `json:"method"`
	Login      string `json:"login"`
	Permission string `json:"permission"`
	ID         int64  `json:"id"`
	Reopen     bool   `json:"reopen"`
}

type faultsInput struct {
	Next     []Fault        `json:"next"`
	Webhooks *WebhookFaults `json:"webhooks"`
	Clear    bool           `json:"clear"`
}

func (s *Server) setFaults(in faultsInput) error {
	if in.Clear {
		s.ClearFaults()
	}
	if in.Webhooks != nil {
		if err := s.SetWebhookFaults(*in.Webhooks); err != nil {
			return err
		}
	}
	return s.Fail(in.Next...)
}

// with decodes a body strictly, so that a misspelt field does not go unnoticed.
func with[T any](do func(*http.Request, T) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var in T
		dec := json.NewDecoder(io.LimitReader(r.Body, 64<<20))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			return nil, errors.New("the body must be a JSON object of the documented form: " + err.Error())
		}
		return do(r, in)
	}
}

// describe is the answer to a new repository.
func (s *Server) describe(repo string) (any, error) {
	r, err := s.repository(repo)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return object{
		"id": r.id, "fullName": r.fullName(), "cloneUrl": s.URL() + "/" + r.fullName() + ".git", "headSha": r.branch(r.defaultBranch),
		"installationId": installationID(s.installationOf(r.owner)),
	}, nil
}

// serveControl answers the control API, to callers on this machine only.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		writeControl(w, http.StatusForbidden, object{"error": "the control API answers callers on this machine only"})
		return
	}
	do := s.control[r.Method+" "+r.URL.Path]
	if do == nil {
		calls := slices.Sorted(keys(s.control))
		writeControl(w, http.StatusNotFound, object{"error": "no such call; there are: " + strings.Join(calls, ", ")})
		return
	}
	value, err := do(r)
	var refused *apiError
	switch {
	case err == nil:
		writeControl(w, http.StatusOK, value)
	case errors.Is(err, ErrUnknown):
		writeControl(w, http.StatusNotFound, object{"error": err.Error()})
	case errors.As(err, &refused):
		writeControl(w, refused.status, object{"error": refused.message, "errors": refused.errors})
	default:
		writeControl(w, http.StatusBadRequest, object{"error": err.Error()})
	}
}

func writeControl(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

// Delivery is one webhook that was sent.
type Delivery struct {
	ID         int64           `json:"id"`
	GUID       string          `json:"guid"`
	Event      string          `json:"event"`
	Action     string          `json:"action"`
	Status     string          `json:"status"` // OK, or what went wrong
	StatusCode int             `json:"statusCode"`
	Redelivery bool            `json:"redelivery"`
	Payload    json.RawMessage `json:"payload"`
}

// ForgetDeliveries forgets the webhooks that were sent, as GitHub does after
// some days.
func (s *Server) ForgetDeliveries() {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.log = nil
}

// Deliveries lists the webhooks that were sent, oldest first.
func (s *Server) Deliveries() []Delivery {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	out := make([]Delivery, 0, len(s.hooks.log))
	for _, v := range s.hooks.log {
		out = append(out, Delivery{v.id, v.guid, v.event, v.action, v.status, v.code, v.redelivery, v.body})
	}
	return out
}
