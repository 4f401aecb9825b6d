package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"signalbox/account"
	"signalbox/db"
	"signalbox/db/pgserver"
	"signalbox/gitprovider/githubsim"
	"signalbox/queue"
)

// demoOrg owns the demo's repositories and tokens.
const demoOrg = "acme"

// demoHost is what the simulated GitHub is called in the API and on pages.
const demoHost = "github.localhost"

// stageOptions say how the stage is set.
type stageOptions struct {
	listen string
	log    *slog.Logger
	simLog *slog.Logger // of the simulated GitHub; nil = it is quiet
	moved  func(queue.Move)
	seed   int64
	// database is the folder of a Postgres that commits durably, as that of an
	// installation does; "" = a temporary one that does not.
	database string
	signIn   bool // people sign in to the pages with the simulated GitHub
}

// stage is what the demo plays on: everything runs.
type stage struct {
	folder   string // removed at the end
	postgres *pgserver.Server
	sim      *githubsim.Server
	where    whereabouts
	cfg      config             // of the server
	stop     context.CancelFunc // ends the server
	ended    chan error         // yields what the server returned
	done     bool
}

// whereabouts is all that a program needs to drive the demo.
type whereabouts struct {
	API        string `json:"api"`
	Token      string `json:"token"`
	AdminToken string `json:"adminToken"`
	Org        string `json:"org"`
	Host       string `json:"host"`
	Dashboard  string `json:"dashboard"`
	GitHub     string `json:"github"`
	Webhook    string `json:"webhook"`
	Database   string `json:"database"`
}

// setStage starts a temporary Postgres, a simulated GitHub, and the server as
// "signalbox serve" runs it, from settings that name the two.
func setStage(ctx context.Context, o stageOptions) (_ *stage, err error) {
	s := &stage{ended: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.clear())
		}
	}()
	if s.folder, err = os.MkdirTemp("", "signalbox-demo-"); err != nil {
		return nil, fmt.Errorf("make a folder for the demo: %w", err)
	}
	if s.postgres, err = pgserver.Start(ctx, pgserver.Config{Dir: o.database, Log: o.log}); err != nil {
		return nil, fmt.Errorf("start a temporary Postgres: %w", err)
	}
	// It outlives ctx: the server finishes its work on it.
	s.sim, err = githubsim.Start(context.WithoutCancel(ctx), githubsim.Config{
		DataDir: filepath.Join(s.folder, "github"), Log: o.simLog, Seed: o.seed, DeliveryWorkers: 2,
	}, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secret := rand.Text()
	cfg, err := demoSettings(s, o, secret).check(o.log)
	if err != nil {
		return nil, err
	}
	s.cfg = cfg
	if err := s.startServer(ctx, cfg, o.moved); err != nil {
		return nil, err
	}
	s.sim.SetWebhook(s.where.Webhook, secret)
	s.sim.SetCallback(s.where.Dashboard + "auth/callback")
	return s, s.makeTokens(ctx)
}

// demoSettings are those that an operator would give to serve.
func demoSettings(s *stage, o stageOptions, secret string) settings {
	auth, id, clientSecret := "none", "", ""
	if o.signIn {
		auth = "github"
		id, clientSecret = s.sim.OAuthClient()
	}
	return settings{
		storage: storage{DatabaseURL: s.postgres.URL(), DatabaseConns: "20", DataDir: filepath.Join(s.folder, "data")},
		gitHub: gitHub{
			GitHubURL: s.sim.URL(), GitHubLimits: "off", AppSlug: "signalbox", Host: demoHost, AppID: strconv.FormatInt(s.sim.AppID(), 10),
			AppPrivateKey: string(s.sim.AppKeyPEM()), WebhookSecret: secret,
			ClientID: id, ClientSecret: clientSecret,
		},
		DashboardAuth: auth, DashboardPublic: "yes", Listen: o.listen, MetricsListen: "127.0.0.1:0", CommandPrefixes: "/signalbox",
		APIRate: "100", APIBurst: "200", Deciders: "2",
	}
}

// startServer runs the server until the stage is cleared, and waits until it
// is ready.
func (s *stage) startServer(ctx context.Context, cfg config, moved func(queue.Move)) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	ready := make(chan addresses, 1)
	go func() {
		s.ended <- serve(run, cfg, replacements{moved: moved}, func(a addresses) { ready <- a })
	}()
	select {
	case a := <-ready:
		base := "http://" + a.main
		s.where = whereabouts{
			API: base + "/v1", Org: demoOrg, Host: cfg.host, Dashboard: base + "/", GitHub: s.sim.URL(),
			Webhook: base + "/webhook", Database: a.database,
		}
		return nil
	case err := <-s.ended:
		s.done = true
		return errors.Join(errors.New("the server did not start"), err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// makeTokens makes the organisation's tokens, as "token create" does.
func (s *stage) makeTokens(ctx context.Context) error {
	d, err := db.Open(ctx, db.Config{DSN: s.where.Database, MaxOpen: 2})
	if err != nil {
		return err
	}
	_, s.where.Token, err = createToken(ctx, d, demoOrg, "demo", account.Submit, time.Time{})
	if err == nil {
		_, s.where.AdminToken, err = createToken(ctx, d, demoOrg, "demo, admin", account.Admin, time.Time{})
	}
	return errors.Join(err, d.Close())
}

// clear stops everything, the server first, and removes what it left.
func (s *stage) clear() error {
	var problems []error
	if s.stop != nil {
		s.stop()
		if !s.done {
			problems = append(problems, <-s.ended)
		}
	}
	if s.sim != nil {
		s.sim.Close()
	}
	if s.postgres != nil {
		problems = append(problems, s.postgres.Stop())
	}
	if s.folder != "" {
		problems = append(problems, os.RemoveAll(s.folder))
	}
	return errors.Join(problems...)
}
