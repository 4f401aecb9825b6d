package main

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"signalbox"
	"signalbox/account"
	"signalbox/gitprovider/github"
	"signalbox/queue"
	"signalbox/web"
)

// noApp reports whether the settings name no App at all.
func (s *gitHub) noApp() bool {
	return s.AppID == "" && s.AppPrivateKey == "" && s.AppPrivateKeyFile == "" && s.WebhookSecret == "" && s.WebhookSecretFile == ""
}

// take fills in the App, as if its settings had been given.
func (s *settings) take(app account.App) {
	s.AppID, s.AppSlug, s.AppPrivateKey, s.WebhookSecret = strconv.FormatInt(app.ID, 10), app.Slug, app.PEM, app.WebhookSecret
	if s.ClientID == "" && s.ClientSecret == "" && s.ClientSecretFile == "" {
		s.ClientID, s.ClientSecret = app.ClientID, app.ClientSecret
	}
}

// complete reads all settings, with the App that this installation made for
// itself if they name none; make is as in ownApp.
func (s *settings) complete(ctx context.Context, make bool, out console) (config, error) {
	log, logErr := s.logger(out.err)
	if err := s.ownApp(ctx, make, log, out); err != nil {
		return config{}, err
	}
	cfg, err := s.check(log)
	return cfg, errors.Join(logErr, err)
}

// ownApp finds the App that this installation made for itself, and with make
// shows the page that makes it when there is none. Without a base URL there is
// no page: the host would not know where to lead back to.
func (s *settings) ownApp(ctx context.Context, make bool, log *slog.Logger, out console) error {
	if !s.noApp() || s.BaseURL == "" {
		return nil // check says what is missing
	}
	c := &checker{}
	cfg := config{storageConfig: c.storage(s.storage), listen: c.address("listen", s.Listen), baseURL: c.url("base-url", s.BaseURL), log: log}
	probe := *s
	probe.AppID, probe.AppPrivateKey, probe.WebhookSecret = "1", "-", "-" // only where the host is matters here
	where := &checker{}
	where.gitHub(probe.gitHub, &cfg)
	if err := errors.Join(c.problems...); err != nil || cfg.host == "" {
		return err // the rest is found by check
	}
	d, err := openDatabase(ctx, cfg.storageConfig, nil, log)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	sealed, err := d.App(ctx, cfg.host)
	switch {
	case errors.Is(err, queue.ErrNotFound) && make:
		app, err := makeApp(ctx, cfg, d, out)
		if err == nil {
			s.take(app)
		}
		return err
	case errors.Is(err, queue.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	app, err := unseal(cfg.secretKeyFile, cfg.host, sealed)
	if err != nil {
		return err
	}
	s.take(app)
	return nil
}

// makeApp serves the set-up page until the App is made and kept.
func makeApp(ctx context.Context, cfg config, d *database, out console) (app account.App, err error) {
	manifest := map[string]any{}
	if err := yaml.Unmarshal(signalbox.Manifest, &manifest); err != nil {
		return app, fmt.Errorf("read app.yml: %w", err)
	}
	code := oneTimeCode()
	page, err := web.NewSetUp(web.SetUpConfig{
		Code: code, HostURL: cfg.githubURL, BaseURL: cfg.baseURL, Manifest: manifest, Log: cfg.log,
		Exchange: func(ctx context.Context, code string) (account.App, error) {
			return github.FromManifest(ctx, cfg.githubAPIURL, code)
		},
		Keep: func(ctx context.Context, made account.App) error {
			sealed, err := seal(cfg.secretKeyFile, cfg.host, made)
			if err == nil {
				err = d.KeepApp(ctx, cfg.host, sealed)
			}
			app = made // read after Done
			return err
		},
	})
	if err != nil {
		return app, err
	}
	l, err := listen("listen", cfg.listen, cfg.log)
	if err != nil {
		return app, err
	}
	fmt.Fprintf(out.err, "\nThis server has no GitHub App yet. Open %s/setup and enter the one-time code %s\n\n", cfg.baseURL, code)
	broken := make(chan error, 1)
	go func() { broken <- l.serve(page) }()
	select {
	case <-page.Done():
	case <-ctx.Done():
		err = errors.New("stopped before the App was made")
	case err = <-broken:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return app, errors.Join(err, l.stop(stop))
}

// oneTimeCode is 80 random bits, in letters and digits that are easy to type.
func oneTimeCode() string {
	var bits [10]byte
	rand.Read(bits[:])
	text := base32.StdEncoding.EncodeToString(bits[:])
	return strings.ToLower(text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:])
}

// seal encrypts an App's secrets, for one host.
func seal(keyFile string, host string, app account.App) ([]byte, error) {
	box, err := sealer(keyFile, true)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(app)
	if err != nil {
		return nil, fmt.Errorf("encode the App: %w", err)
	}
	return box.seal(text, host), nil
}

// unseal is the opposite of seal.
func unseal(keyFile string, host string, sealed []byte) (app account.App, err error) {
	box, err := sealer(keyFile, false)
	if err != nil {
		return app, err
	}
	text, err := box.open(sealed, host)
	if err != nil {
		return app, fmt.Errorf("read the App: %w", err)
	}
	if err := json.Unmarshal(text, &app); err != nil {
		return app, errors.New("the App's secrets in the database are damaged")
	}
	return app, nil
}
