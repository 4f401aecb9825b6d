package main

import (
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// What is in deploy/ fits the program: settings, addresses and commands that it
// names are there. No container engine runs here: "make deploy-check" follows
// the Dockerfile's steps in a folder, and has helm render the chart.

var (
	helmProgram = flag.String("helm", "", "the helm program, to lint and render the chart with")
	imageSteps  = flag.Bool("image", false, "follow the steps of the Dockerfile, and run what they make")
)

const deployDir = "../../deploy"

func deployed(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deployDir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var settingName = regexp.MustCompile(`SIGNALBOX_[A-Z0-9_]*[A-Z0-9]`)

// isSetting reports whether serve reads a variable.
func isSetting(t *testing.T) func(string) bool {
	t.Helper()
	var names []string
	for _, f := range flagsOf(t, "serve") {
		names = append(names, f.Envs...)
	}
	return func(name string) bool { return slices.Contains(names, name) }
}

// TestDeployedSettingsExist: every setting that a file names is one of serve,
// and what the chart makes a file of can stand in one.
func TestDeployedSettingsExist(t *testing.T) {
	t.Parallel()
	known := isSetting(t)
	seen := 0
	for _, root := range []string{"Dockerfile", "compose.yaml", "systemd", "helm"} {
		err := filepath.WalkDir(filepath.Join(deployDir, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range settingName.FindAllString(string(text), -1) {
				seen++
				if !known(name) {
					t.Errorf("%s names %s, which is no setting of serve", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 30 {
		t.Errorf("only %d names were found", seen)
	}
	var values struct {
		Secret struct{ Keys map[string]string }
	}
	if err := yaml.Unmarshal([]byte(deployed(t, "helm", "signalbox", "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	for name := range values.Secret.Keys {
		if !known(name + "_FILE") {
			t.Errorf("the chart sets %s_FILE, which is no setting of serve", name)
		}
	}
}

// instruction is a line of a Dockerfile.
type instruction struct{ word, rest string }

// dockerfile reads the instructions, with the stage that each belongs to.
func dockerfile(t *testing.T) (stages [][]instruction) {
	t.Helper()
	for _, line := range strings.Split(deployed(t, "Dockerfile"), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#") || word == "ARG" && len(stages) == 0:
			continue
		case word == "FROM":
			stages = append(stages, nil)
		case strings.HasSuffix(line, "\\"):
			t.Fatalf("this test does not read lines that go on: %s", line)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], instruction{word, strings.TrimSpace(rest)})
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one that builds and one that runs", len(stages))
	}
	return stages
}

// all is what a stage says with one word.
func all(stage []instruction, word string) (rest []string) {
	for _, i := range stage {
		if i.word == word {
			rest = append(rest, i.rest)
		}
	}
	return rest
}

// listIn reads ["a", "b"].
func listIn(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return list
}

// imageEnv are the variables that the image sets.
func imageEnv(t *testing.T, stage []instruction) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, line := range all(stage, "ENV") {
		for _, pair := range strings.Fields(line) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
	}
	return env
}

// TestTheImageRunsTheProgramAsNobody: what the Dockerfile says of user, command,
// addresses and volumes fits the program, and compose and chart fit the image.
func TestTheImageRunsTheProgramAsNobody(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	run := stages[1]
	if user := all(run, "USER"); len(user) != 1 || user[0] != "65532:65532" {
		t.Errorf("USER is %q", user)
	}
	env := imageEnv(t, run)
	if volume := all(run, "VOLUME"); len(volume) != 1 || !slices.Equal(listIn(t, volume[0]), []string{env["SIGNALBOX_DATA_DIR"]}) {
		t.Errorf("VOLUME is %q, and the data is in %q", volume, env["SIGNALBOX_DATA_DIR"])
	}
	ports := strings.Fields(strings.Join(all(run, "EXPOSE"), " "))
	for _, name := range []string{"SIGNALBOX_LISTEN", "SIGNALBOX_METRICS_LISTEN"} {
		if !slices.Contains(ports, strings.TrimPrefix(env[name], ":")) {
			t.Errorf("%s is %s, and the ports are %s", name, env[name], ports)
		}
	}
	if entry := listIn(t, all(run, "ENTRYPOINT")[0]); !slices.Equal(entry, []string{"signalbox"}) {
		t.Errorf("ENTRYPOINT is %q", entry)
	}
	if _, err := commandLine(t).Parse(listIn(t, all(run, "CMD")[0])); err != nil {
		t.Errorf("CMD: %v", err)
	}
	if health := strings.Join(all(run, "HEALTHCHECK"), ""); !strings.Contains(health, "http://127.0.0.1"+env["SIGNALBOX_LISTEN"]+"/readyz") {
		t.Errorf("HEALTHCHECK is %s", health)
	}
	goImage := regexp.MustCompile(`(?m)^ARG BUILD_IMAGE=golang:1\.([0-9]+)-`).FindStringSubmatch(deployed(t, "Dockerfile"))
	wanted := strings.Split(strings.TrimPrefix(runtime.Version(), "go"), ".")
	if goImage == nil || len(wanted) < 2 || asNumber(t, goImage[1]) < asNumber(t, wanted[1]) {
		t.Errorf("the image builds with Go 1.%v, older than %s", goImage, runtime.Version())
	}
}

func asNumber(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestComposeFitsTheImage: the file is well-formed, volumes are declared, the
// root is read-only, and every variable that it wants is explained in it.
func TestComposeFitsTheImage(t *testing.T) {
	t.Parallel()
	text := deployed(t, "compose.yaml")
	var file struct {
		Services map[string]struct {
			Build struct {
				Context, Dockerfile string
			}
			Environment map[string]string
			Volumes     []string
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			Tmpfs       []string
			DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Services["signalbox"]
	if _, err := os.Stat(filepath.Join(deployDir, s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.Tmpfs, []string{"/tmp"}) || s.DependsOn["postgres"].Condition != "service_healthy" {
		t.Errorf("%+v", s)
	}
	dataDir := imageEnv(t, dockerfile(t)[1])["SIGNALBOX_DATA_DIR"]
	for name, service := range file.Services {
		for _, v := range service.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, declared := file.Volumes[volume]; !declared {
				t.Errorf("%s: the volume %s is not declared", name, volume)
			}
		}
	}
	if !slices.Contains(s.Volumes, "data:"+dataDir) {
		t.Errorf("nothing keeps %s", dataDir)
	}
	// With what it says about variables, the settings are right.
	expand := func(value string) string {
		return regexp.MustCompile(`\$\{([A-Z_]+)(:[?-][^}]*)?\}`).ReplaceAllStringFunc(value, func(v string) string {
			name := strings.TrimLeft(strings.FieldsFunc(v, func(r rune) bool { return r == ':' || r == '}' })[0], "${")
			if m := regexp.MustCompile(`(?m)^#   ` + name + `=(\S+)`).FindStringSubmatch(text); m != nil {
				return m[1]
			}
			if _, standard, ok := strings.Cut(v, ":-"); ok {
				return strings.TrimSuffix(standard, "}")
			}
			t.Errorf("the file does not say what %s is", name)
			return ""
		})
	}
	args := []string{"--app-id=7", "--app-private-key-file=" + key(t), "--webhook-secret=x"}
	for _, f := range flagsOf(t, "serve") {
		if value, ok := s.Environment[f.Envs[0]]; ok {
			args = append(args, "--"+f.Name+"="+expand(value))
		}
	}
	if _, err := parsed(t, args...).check(discard); err != nil {
		t.Error(err)
	}
}

// TestTheUnitHandsOverItsSecrets: each credential that a setting names is loaded,
// and systemd itself has nothing to say where it is installed.
func TestTheUnitHandsOverItsSecrets(t *testing.T) {
	t.Parallel()
	unit := deployed(t, "systemd", "signalbox.service")
	used := regexp.MustCompile(`(?m)^Environment=SIGNALBOX_\w+_FILE=%d/(\S+)$`).FindAllStringSubmatch(unit, -1)
	for _, m := range used {
		if !strings.Contains(unit, "\nLoadCredential="+m[1]+":/etc/signalbox/") {
			t.Errorf("nothing loads the credential %s", m[1])
		}
	}
	if len(used) != strings.Count(unit, "\nLoadCredential=") {
		t.Errorf("%d credentials are used of %d", len(used), strings.Count(unit, "\nLoadCredential="))
	}
	if !strings.Contains(unit, "\nKillMode=mixed\n") {
		t.Error("git processes are asked to stop before the program has ended")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here, so it is not asked")
	}
	copied := filepath.Join(t.TempDir(), "signalbox.service")
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(unit, "ExecStart=/usr/local/bin/signalbox", "ExecStart="+program, 1)
	if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", copied}, {"security", "--offline=true", "--threshold=20", copied}} {
		if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// TestProbesAreRoutes: what asks whether the program is well gets an answer.
func TestProbesAreRoutes(t *testing.T) {
	t.Parallel()
	paths := regexp.MustCompile(`path: (/\w+), port: http`).FindAllStringSubmatch(deployed(t, "helm", "signalbox", "templates", "statefulset.yaml"), -1)
	if len(paths) != 3 {
		t.Fatalf("the chart has %d probes", len(paths))
	}
	d, err := openDatabase(t.Context(), storageConfig{databaseURL: dbtest.DSN(t), connections: 4}, nil, discard)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parsed(t, "--app-id=7", "--app-private-key-file="+key(t), "--webhook-secret=x", "--listen=127.0.0.1:0", "--metrics-listen=off", "--data-dir="+t.TempDir()).check(discard)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newService(cfg, d, replacements{})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		d.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) int {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	for _, m := range paths {
		want := map[string]int{"/healthz": 200, "/readyz": 503}[m[1]] // it has not been started
		if got := ask(m[1]); got != want {
			t.Errorf("%s answers %d, want %d", m[1], got, want)
		}
	}
	s.ready.Store(true)
	if got := ask("/readyz"); got != 200 {
		t.Errorf("/readyz answers %d", got)
	}
	// What messages link to is served beside the API's own page.
	for _, path := range []string{"/docs/", "/docs/troubleshooting", "/docs/images/line.svg", "/docs/api"} {
		if got := ask(path); got != 200 {
			t.Errorf("%s answers %d", path, got)
		}
	}
}

// TestTheChartRenders: helm has no complaint, and what comes out sets what the
// program knows, for the values of each file in ci/ and those of the chart.
func TestTheChartRenders(t *testing.T) {
	t.Parallel()
	if *helmProgram == "" {
		t.Skip("no helm was named")
	}
	chart := filepath.Join(deployDir, "helm", "signalbox")
	values, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(values) < 2 {
		t.Fatal(values, err)
	}
	helm := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), *helmProgram, args...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	known := isSetting(t)
	for _, file := range append(values, filepath.Join(chart, "values.yaml")) {
		if out, err := helm("lint", "--strict", chart, "-f", file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		out, err := helm("template", "release", chart, "-f", file)
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
			continue
		}
		kinds := map[string]int{}
		for i, text := range strings.Split(out, "\n---\n") {
			var object manifestObject
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Errorf("%s: object %d: %v", file, i, err)
			}
			kinds[object.Kind]++
			object.check(t, file, known)
		}
		if kinds["StatefulSet"] != 1 || kinds["Service"] != 2 || kinds["ServiceAccount"] != 1 {
			t.Errorf("%s: %v", file, kinds)
		}
	}
	for wrong, says := range map[string]string{
		"settings.SIGNALBOX_LISTEN=:80":           "the chart sets this itself",
		"settings.SIGNALBOX_WEBHOOK_SECRET=oh":    "the chart sets this itself",
		"settings.LISTEN=:80":                     "does not match pattern",
		"settings.SIGNALBOX_BASE_URL=example.com": "does not match pattern",
		"replica=3": "not allowed",
	} {
		if out, err := helm("template", "release", chart, "--set", wrong); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v, and no word of %q in\n%s", wrong, err, says, out)
		}
	}
}

// manifestObject is what matters here of an object of Kubernetes.
type manifestObject struct {
	Kind string
	Spec struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		Template    struct {
			Spec struct {
				SecurityContext struct {
					RunAsNonRoot bool  `yaml:"runAsNonRoot"`
					RunAsUser    int64 `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Env             []struct{ Name, Value string }
					SecurityContext struct {
						ReadOnly bool `yaml:"readOnlyRootFilesystem"`
					} `yaml:"securityContext"`
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct{ Name string }
			}
		}
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
		} `yaml:"volumeClaimTemplates"`
	}
}

// check looks at the object that runs the program.
func (o manifestObject) check(t *testing.T, file string, known func(string) bool) {
	t.Helper()
	if o.Kind != "StatefulSet" {
		return
	}
	pod := o.Spec.Template.Spec
	if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.RunAsUser != 65532 || len(pod.Containers) != 1 || time.Duration(pod.Grace)*time.Second < stopTimeout+10*time.Second {
		t.Errorf("%s: %+v", file, pod)
		return
	}
	c := pod.Containers[0]
	if !c.SecurityContext.ReadOnly {
		t.Errorf("%s: the root is not read-only", file)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		if _, twice := env[e.Name]; twice || strings.HasPrefix(e.Name, "SIGNALBOX_") && !known(e.Name) {
			t.Errorf("%s: %s is given twice, or is no setting", file, e.Name)
		}
		env[e.Name] = e.Value
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range o.Spec.VolumeClaimTemplates {
		volumes[v.Metadata.Name] = true
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.MountPath] = true
		if !volumes[m.Name] {
			t.Errorf("%s: there is no volume %s", file, m.Name)
		}
	}
	for _, path := range []string{env["SIGNALBOX_DATA_DIR"], "/tmp", filepath.Dir(env["SIGNALBOX_DATABASE_URL_FILE"])} {
		if !mounted[path] {
			t.Errorf("%s: nothing is mounted at %s", file, path)
		}
	}
}

// TestTheStepsOfTheDockerfile follows them in a folder, as far as that can be
// done without a container engine: each RUN in a copy of the source, each COPY
// from one folder into another. Then what they made runs as the image's user,
// from a folder that this user cannot write to, and serves.
func TestTheStepsOfTheDockerfile(t *testing.T) {
	t.Parallel()
	if !*imageSteps {
		t.Skip("-image was not asked for")
	}
	stages := dockerfile(t)
	build, image := t.TempDir(), t.TempDir()
	work := build
	arguments := map[string]string{"VERSION": "v0.0.0-steps"}
	for _, step := range stages[0] {
		switch step.word {
		case "FROM", "ENV", "ARG": // the proxy and the compiler of this machine
		case "WORKDIR":
			work = filepath.Join(build, step.rest)
			demand(t)(os.MkdirAll(work, 0o755), os.MkdirAll(filepath.Join(build, "out"), 0o755))
		case "COPY":
			from := strings.Fields(step.rest)
			copyContext(t, from[:len(from)-1], work)
		case "RUN":
			command := strings.ReplaceAll(step.rest, " /out", " "+build+"/out")
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", command)
			cmd.Dir, cmd.Env = work, append(os.Environ(), "CGO_ENABLED=0")
			for name, value := range arguments {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v\n%s", step.rest, err, out)
			}
		default:
			t.Fatalf("this test does not know %s", step.word)
		}
	}
	for _, step := range stages[1] {
		if step.word == "COPY" {
			copyFromBuild(t, strings.Fields(step.rest), build, image)
		}
	}
	notices, err := os.ReadFile(filepath.Join(image, "usr/local/share/doc/signalbox/THIRD-PARTY-NOTICES"))
	if err != nil || !strings.Contains(string(notices), "github.com/riverqueue/river v") || !strings.Contains(string(notices), "Mozilla Public License") {
		t.Errorf("the notices lack what is compiled in: %v", err)
	}
	serveFromImage(t, stages[1], image)
}

// copyContext copies what git knows, and what it would, of the source.
func copyContext(t *testing.T, what []string, to string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, what...)...)
	list.Dir = "../.."
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(names), "\x00"), "\x00") {
		source := filepath.Join("../..", name)
		info, err := os.Lstat(source)
		if os.IsNotExist(err) || strings.HasPrefix(name, "docs/screenshots/") {
			continue
		}
		demand(t)(err)
		text, err := os.ReadFile(source)
		demand(t)(err, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755), os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm()))
	}
}

// copyFromBuild is COPY --from=build [--chown=…] source… target.
func copyFromBuild(t *testing.T, args []string, build, image string) {
	t.Helper()
	args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--") })
	last := len(args) - 1
	target := filepath.Join(image, args[last])
	if strings.HasSuffix(args[last], "/") {
		demand(t)(os.MkdirAll(target, 0o755))
	}
	demand(t)(os.MkdirAll(filepath.Dir(target), 0o755))
	for _, source := range args[:last] {
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", filepath.Join(build, source), target).CombinedOutput(); err != nil {
			t.Fatalf("COPY %s: %v\n%s", source, err, out)
		}
	}
}

// serveFromImage runs the image's command until it is ready, and stops it.
func serveFromImage(t *testing.T, stage []instruction, image string) {
	t.Helper()
	sim, err := githubsim.Start(t.Context(), githubsim.Config{DataDir: t.TempDir()}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	dataDir, tmp := filepath.Join(image, imageEnv(t, stage)["SIGNALBOX_DATA_DIR"]), filepath.Join(image, "tmp")
	demand(t)(os.Mkdir(tmp, 0o700))
	dsn, _ := overTCP(t, dbtest.DSN(t))
	c := newChild(t, sim, dsn)
	program := filepath.Join(image, "usr/local/bin/signalbox")
	c.cmd = exec.Command(program, listIn(t, all(stage, "CMD")[0])...)
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dataDir, c.log, c.log
	c.cmd.Env = append(slices.DeleteFunc(c.env, func(v string) bool {
		return strings.HasPrefix(v, childVariable) || strings.HasPrefix(v, "SIGNALBOX_APP_PRIVATE_KEY_FILE") || strings.HasPrefix(v, "HOME=")
	}), "SIGNALBOX_DATA_DIR="+dataDir, "TMPDIR="+tmp, "SIGNALBOX_APP_PRIVATE_KEY="+string(sim.AppKeyPEM()))
	if os.Getuid() == 0 {
		demand(t)(os.Chown(dataDir, 65532, 65532), os.Chown(tmp, 65532, 65532))
		for dir := image; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
			demand(t)(os.Chmod(dir, 0o755))
		}
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if out, err := exec.CommandContext(t.Context(), program, "version").Output(); err != nil || !strings.Contains(string(out), "v0.0.0-steps") {
		t.Errorf("version says %q: %v", out, err)
	}
	demand(t)(c.cmd.Start())
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill() // it may have ended
			_ = c.cmd.Wait()
		}
	})
	waitFor(t, c.log, regexp.MustCompile(`msg=(ready) `))
	c.end(t)
	if _, err := os.Stat(filepath.Join(dataDir, "mirrors")); err != nil {
		t.Logf("nothing was written: %v", err)
	}
	err = filepath.WalkDir(image, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dataDir || path == tmp {
			return err
		}
		if info, err := d.Info(); err == nil {
			if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid == 65532 && !strings.HasPrefix(path, dataDir) && !strings.HasPrefix(path, tmp) {
				return fmt.Errorf("it wrote %s", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
