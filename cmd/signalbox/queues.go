package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"signalbox/api"
	"signalbox/queue"
	"signalbox/web"
)

// queueCommands are about queues themselves.
type queueCommands struct {
	List   queueListCommand   `cmd:"" help:"List the queues that the token sees."`
	Get    queueGetCommand    `cmd:"" help:"Show a queue: its settings, and what is in it."`
	Set    queueSetCommand    `cmd:"" help:"Change settings of a queue."`
	Create queueCreateCommand `cmd:"" help:"Make a queue for a branch."`
	Delete queueDeleteCommand `cmd:"" help:"Remove a queue in which nothing is active."`
	Pause  queuePauseCommand  `cmd:"" help:"Have a queue start no tests and land nothing. What is in it keeps its place."`
	Resume queueResumeCommand `cmd:"" help:"Set a queue running again."`
	Drain  queueDrainCommand  `cmd:"" help:"Have a queue finish what is in line, and admit nobody."`
}

// queueListCommand lists queues.
type queueListCommand struct {
	connection `group:"connection"`
	JSON       bool `name:"json" help:"Print the answer of the API, as JSON."`
}

// Run lists.
func (l *queueListCommand) Run(ctx context.Context, c console) error {
	client, err := l.client()
	if err != nil {
		return missing(err)
	}
	var raw json.RawMessage
	if err := client.Get(ctx, "status", &raw); err != nil {
		return err
	}
	var s api.Status
	switch err := json.Unmarshal(raw, &s); {
	case err != nil:
		return &api.Stranger{Host: client.Server(), Err: err}
	case l.JSON:
		return printJSON(c, raw)
	case len(s.Queues) == 0:
		_, err := fmt.Fprintf(c.out, "%s has no queue. signalbox queue create makes one.\n", s.Organization)
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REPOSITORY\tBRANCH\tSTATE\tMODE\tIN THE QUEUE\tTESTING\tNOT READY")
	for _, q := range s.Queues {
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%d\t%d\t%d\n", q.Repo.Owner, q.Repo.Name, q.Branch, q.State, q.Mode, q.Enqueued, q.Testing, q.NotReady)
	}
	return table.Flush()
}

// queueGetCommand shows a queue.
type queueGetCommand struct {
	target
	JSON bool `name:"json" help:"Print the answer of the API, as JSON."`
}

// Run shows it.
func (g *queueGetCommand) Run(ctx context.Context, c console) error {
	q, _, err := g.find(ctx)
	if err != nil {
		return err
	}
	return answerQueue(ctx, c, q, "getQueue", nil, g.JSON)
}

// answerQueue calls an endpoint that answers with a queue, and prints that.
func answerQueue(ctx context.Context, c console, q *api.Queue, endpoint string, more map[string]any, asJSON bool) error {
	var raw json.RawMessage
	if err := q.Call(ctx, endpoint, more, &raw); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c, raw)
	}
	var contents api.Contents
	if err := json.Unmarshal(raw, &contents); err != nil {
		return &api.Stranger{Host: q.Server(), Err: err}
	}
	switch endpoint {
	case "getQueue":
		return printQueue(c.out, q, contents)
	default:
		return printSettings(c.out, q, contents, slices.Collect(maps.Keys(more)))
	}
}

// queueStates say what each state of a queue means.
var queueStates = map[string]string{
	"running":         "running",
	"paused":          "paused: it starts no tests and lands nothing",
	"draining":        "draining: it finishes what is in line and admits nobody",
	"switching_modes": "switching modes: it admits nobody until its line is empty",
}

func headline(q *api.Queue, contents api.Contents) string {
	state := queueStates[contents.State]
	if state == "" {
		state = contents.State
	}
	return fmt.Sprintf("The queue for %s of %s is %s.\n", q.Branch, q.Repo(), state)
}

// printQueue writes all settings of a queue, and what is in it.
func printQueue(w io.Writer, q *api.Queue, contents api.Contents) error {
	if _, err := io.WriteString(w, headline(q, contents)); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	group := ""
	for _, s := range web.Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(table, "\n%s\n", group)
		}
		fmt.Fprintf(table, "  %s\t%s\n", s.Name, shownValue(contents.Settings[s.Name]))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(contents.Enqueued) == 0 {
		_, err := io.WriteString(w, "\nNothing is in it.\n")
		return err
	}
	fmt.Fprintf(w, "\nIn it: %s\n", counted(len(contents.Enqueued), "pull request"))
	for _, p := range contents.Enqueued {
		fmt.Fprintf(table, "  #%d\t%s\t%s\t%s\t%s\n", p.Number, p.State, p.Priority, printable(p.Author), printable(p.Title))
	}
	return table.Flush()
}

// printSettings writes the state of a queue, and the settings that were named.
func printSettings(w io.Writer, q *api.Queue, contents api.Contents, named []string) error {
	if _, err := io.WriteString(w, headline(q, contents)); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range web.Settings() {
		if slices.Contains(named, s.Name) {
			fmt.Fprintf(table, "  %s\t%s\n", s.Name, shownValue(contents.Settings[s.Name]))
		}
	}
	return table.Flush()
}

// shownValue is a value of the API as the command line takes it.
func shownValue(value json.RawMessage) string {
	var list []string
	var text string
	switch {
	case len(value) == 0:
		return "-"
	case string(value) == "true":
		return "on"
	case string(value) == "false":
		return "off"
	case json.Unmarshal(value, &list) == nil:
		if len(list) == 0 {
			return "none"
		}
		return printable(strings.Join(list, ","))
	case json.Unmarshal(value, &text) == nil:
		return printable(text)
	}
	return string(value)
}

// settingValues are what queue create and queue set take.
type settingValues struct {
	target
	Settings []string `arg:"" optional:"" name:"setting=value" completion:"@settings" help:"Settings, such as concurrency=4, batch=on or requiredStatuses=build,test."`
	JSON     bool     `name:"json" help:"Print the answer of the API, as JSON."`
}

// Help lists the settings.
func (settingValues) Help() string {
	var b strings.Builder
	b.WriteString("These are the settings. What each does stands in docs/commands.md, and on the settings page of a queue.\n\n")
	for _, s := range web.Settings() {
		fmt.Fprintf(&b, "    %s=%s\n", s.Name, valueForm(s))
	}
	return b.String()
}

// valueForm says what a setting can be.
func valueForm(s web.Setting) string {
	switch s.Kind {
	case "number":
		return fmt.Sprintf("%d and more", s.Least)
	case "switch":
		return "on|off"
	case "choice":
		return strings.Join(s.Choices, "|")
	case "lines":
		return "NAME,NAME… (nothing: none)"
	default:
		return "TEXT"
	}
}

// body reads the settings as the API takes them. All mistakes are reported
// together.
func (v settingValues) body(command string) (map[string]any, error) {
	known := web.Settings()
	body := map[string]any{}
	var wrong []error
	for _, given := range v.Settings {
		name, value, ok := strings.Cut(given, "=")
		i := slices.IndexFunc(known, func(s web.Setting) bool { return strings.EqualFold(s.Name, unhyphened(name)) })
		switch {
		case !ok:
			wrong = append(wrong, wrongUse(command, "%q: give a setting and its value, such as concurrency=4", given))
			continue
		case i < 0:
			wrong = append(wrong, wrongUse(command, "there is no setting %q%s", name, nearest(known, unhyphened(name))))
			continue
		}
		s := known[i]
		if _, twice := body[s.Name]; twice {
			wrong = append(wrong, wrongUse(command, "%s is given twice", s.Name))
		}
		read, err := readSetting(s, value)
		if err != nil {
			wrong = append(wrong, wrongUse(command, "%s", err))
		}
		body[s.Name] = read
	}
	return body, errors.Join(wrong...)
}

// unhyphened is a name as flags would spell it, as the API does.
func unhyphened(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(name)
}

// nearest names the settings that a name may have been meant for.
func nearest(known []web.Setting, name string) string {
	var near []string
	for _, s := range known {
		if len(name) >= 3 && strings.Contains(strings.ToLower(s.Name), strings.ToLower(name)) {
			near = append(near, s.Name)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s?)", strings.Join(near, ", "))
}

// readSetting reads a value as the API takes it. It judges no more than its
// form: the server has the last word.
func readSetting(s web.Setting, text string) (any, error) {
	switch s.Kind {
	case "number":
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || int64(n) < s.Least {
			return nil, fmt.Errorf("%s is %q: give a whole number from %d to %d", s.Name, text, s.Least, int64(queue.MaxNumber))
		}
		if s.Name == "pendingFailureDepth" && n == 0 {
			return nil, nil // that is how the API says off
		}
		return n, nil
	case "switch":
		switch strings.ToLower(text) {
		case "on", "true", "yes":
			return true, nil
		case "off", "false", "no":
			return false, nil
		}
		return nil, fmt.Errorf("%s is %q: give on or off", s.Name, text)
	case "choice":
		if !slices.Contains(s.Choices, strings.ToLower(text)) {
			return nil, fmt.Errorf("%s is %q: give %s", s.Name, text, strings.Join(s.Choices, " or "))
		}
		return strings.ToLower(text), nil
	case "lines":
		names := []string{}
		for _, name := range strings.Split(text, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
		return names, nil
	default:
		return text, nil
	}
}

// queueSetCommand changes settings.
type queueSetCommand struct{ settingValues }

// Run changes them, all or none.
func (s *queueSetCommand) Run(ctx context.Context, c console) error {
	if len(s.Settings) == 0 {
		return wrongUse("queue set", "no setting is named")
	}
	body, err := s.body("queue set")
	if err != nil {
		return err
	}
	q, _, err := s.find(ctx)
	if err != nil {
		return err
	}
	return answerQueue(ctx, c, q, "updateQueue", body, s.JSON)
}

// queueCreateCommand makes a queue.
type queueCreateCommand struct{ settingValues }

// Run makes it. Without a branch it is for the one that the remote names as its
// default.
func (s *queueCreateCommand) Run(ctx context.Context, c console) error {
	body, err := s.body("queue create")
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return missing(err)
	}
	f, err := s.place(ctx)
	if err != nil {
		return err
	}
	q := &api.Queue{Client: client, Host: f.Host, Owner: f.Owner, Name: f.Name, Branch: s.Branch}
	if q.Branch == "" && s.Repo == "" {
		q.Branch = defaultBranch(ctx, remoteOf(ctx))
	}
	if q.Branch == "" {
		return wrongUse("queue create", "say with --branch which branch the queue is for")
	}
	return answerQueue(ctx, c, q, "createQueue", body, s.JSON)
}

// queueDeleteCommand removes a queue.
type queueDeleteCommand struct {
	target
	JSON bool `name:"json" help:"Print the answer of the API, as JSON."`
}

// Run removes it. The branch has to be named: what is gone is gone.
func (d *queueDeleteCommand) Run(ctx context.Context, c console) error {
	if d.Branch == "" {
		return wrongUse("queue delete", "say with --branch which queue is to be removed")
	}
	q, _, err := d.find(ctx)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := q.Call(ctx, "deleteQueue", nil, &raw); err != nil {
		return err
	}
	if d.JSON {
		return printJSON(c, raw)
	}
	_, err = fmt.Fprintf(c.out, "There is no queue for %s of %s any more.\n", q.Branch, q.Repo())
	return err
}

// queueState brings a queue into a state.
type queueState struct {
	target
	JSON bool `name:"json" help:"Print the answer of the API, as JSON."`
}

func (s queueState) become(ctx context.Context, c console, state queue.State) error {
	q, _, err := s.find(ctx)
	if err != nil {
		return err
	}
	return answerQueue(ctx, c, q, "updateQueue", map[string]any{"state": state}, s.JSON)
}

// queuePauseCommand pauses a queue.
type queuePauseCommand struct{ queueState }

// Run pauses it.
func (s *queuePauseCommand) Run(ctx context.Context, c console) error {
	return s.become(ctx, c, queue.Paused)
}

// queueResumeCommand sets a queue running.
type queueResumeCommand struct{ queueState }

// Run sets it running.
func (s *queueResumeCommand) Run(ctx context.Context, c console) error {
	return s.become(ctx, c, queue.Running)
}

// queueDrainCommand drains a queue.
type queueDrainCommand struct{ queueState }

// Run drains it.
func (s *queueDrainCommand) Run(ctx context.Context, c console) error {
	return s.become(ctx, c, queue.Draining)
}
