package pgserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// majorVersion is that of the data in the folder, or 0 when there is none yet.
func (f *folder) majorVersion() (int, error) {
	b, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if entries, _ := os.ReadDir(f.data()); len(entries) > 0 {
			return 0, fmt.Errorf("%s is not empty and not a data folder of Postgres", f.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, _, _ := strings.Cut(strings.TrimSpace(string(b)), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0, fmt.Errorf("read version of %s: %w", f.data(), err)
	}
	return n, nil
}

// prepare makes the data folder unless it is there. Temporary ones are copied
// from a template when the cache has one.
func (f *folder) prepare(ctx context.Context, bin binaries, cache string) (fromTemplate bool, err error) {
	if f.kept {
		major, err := f.majorVersion()
		if err != nil {
			return false, err
		}
		if major != 0 {
			return false, f.runAs.chownTree(f.data())
		}
		return false, f.initdb(ctx, bin)
	}
	template := templatePath(cache, bin)
	err = copyTemplate(template, f.data())
	if err == nil {
		return true, f.runAs.chownTree(f.data())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("the template of temporary servers is unusable", "template", template, "error", err)
	}
	return false, f.prepareAfresh(ctx, bin, cache)
}

// prepareAfresh makes the data of a temporary folder anew, and a template of
// it unless there is one.
func (f *folder) prepareAfresh(ctx context.Context, bin binaries, cache string) error {
	if err := os.RemoveAll(f.data()); err != nil {
		return err
	}
	if err := f.initdb(ctx, bin); err != nil {
		return err
	}
	if err := saveTemplate(f.data(), templatePath(cache, bin), cache); err != nil {
		f.log.Warn("temporary servers start slowly without a template", "error", err)
	}
	return nil
}

// initdb makes the data folder. It appears under its name only when complete,
// so a start that was killed leaves nothing half made. The locale is C: the
// same order of strings everywhere.
func (f *folder) initdb(ctx context.Context, bin binaries) error {
	fresh := f.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := f.makeOwned(fresh); err != nil {
		return err
	}
	args := []string{"-D", fresh, "-U", superuser, "--auth-local=trust", "--auth-host=reject",
		"-E", "UTF8", "--locale=C", "--no-instructions"}
	if !f.kept {
		args = append(args, "--no-sync")
	}
	if err := f.run(f.command(ctx, bin, "initdb", args...)); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	_ = os.Remove(f.data()) // an empty one is in the way of the rename on some systems
	if err := os.Rename(fresh, f.data()); err != nil {
		return err
	}
	return syncDir(f.path)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// templatePath depends on all that initdb's result depends on.
func templatePath(cache string, bin binaries) string {
	sum := sha256.Sum256([]byte(bin.dir + "\n" + bin.build))
	return filepath.Join(cache, fmt.Sprintf("template-%s-%x", bin.version, sum[:6]))
}

// saveTemplate puts a copy of fresh data into the cache, unless another
// process was faster. Templates appear and disappear by renaming only, so
// nobody sees half of one.
func saveTemplate(data, template, cache string) error {
	tmp, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "new")
	if err := copyTree(os.DirFS(data), fresh); err != nil {
		return fmt.Errorf("save template: %w", err)
	}
	if err := os.Rename(fresh, template); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("save template: %w", err)
	}
	return nil
}

// dropTemplate removes a template that turned out to be damaged.
func dropTemplate(template, cache string) error {
	tmp, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	err = os.Rename(template, filepath.Join(tmp, "old"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyTemplate copies one template, whatever happens to its name meanwhile,
// and is in error if it was dropped meanwhile.
func copyTemplate(template, to string) error {
	root, err := os.OpenRoot(template)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := copyTree(root.FS(), to); err != nil {
		return err
	}
	copied, err := root.Stat(".")
	if err != nil {
		return err
	}
	named, err := os.Stat(template)
	if err == nil && !os.SameFile(copied, named) {
		err = errors.New("template was replaced")
	}
	return err
}

// copyTree copies folders and plain files, for their owner's eyes only. There
// is nothing else in fresh data.
func copyTree(from fs.FS, to string) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		switch {
		case d.IsDir():
			return os.Mkdir(target, 0o700)
		case d.Type().IsRegular():
			return copyFile(from, path, target)
		default:
			return fmt.Errorf("copy %s: neither file nor folder", path)
		}
	})
}

func copyFile(from fs.FS, path, to string) (err error) {
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// unfinished names what is still being made in the cache.
const unfinished = ".unfinished-"

// cacheDir makes the cache folder. What is in it gets executed, so nobody else
// may be able to write there, and the server's user must be able to reach it.
func cacheDir(wanted string, runAs *account) (string, error) {
	if wanted != "" {
		dir, err := filepath.Abs(wanted)
		if err != nil {
			return "", err
		}
		return dir, openCache(dir)
	}
	var errs error
	for _, dir := range cachePlaces(runAs) {
		err := openCache(dir)
		if err == nil {
			return dir, nil
		}
		errs = errors.Join(errs, err)
	}
	return "", fmt.Errorf("make a cache folder: %w", errs)
}

func cachePlaces(runAs *account) []string {
	var dirs []string
	if home, err := os.UserCacheDir(); err == nil && runAs.blockedAt(home) == "" {
		dirs = append(dirs, filepath.Join(home, "signalbox"))
	}
	if runAs != nil {
		dirs = append(dirs, "/var/cache/signalbox")
	}
	return append(dirs, filepath.Join(temporaryBase(runAs), fmt.Sprintf("signalbox-cache-%d", os.Geteuid())))
}

func openCache(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || ownerOf(dir) != os.Geteuid() || info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only we can write to", dir)
	}
	// Remove what killed processes left half made.
	old, _ := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, path := range old {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(path)
		}
	}
	return nil
}
