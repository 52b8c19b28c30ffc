package doctest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Options are how documents are run.
type Options struct {
	// Root is the folder of the repository. Commands run in a copy of Folders, with the
	// names that they have there.
	Root    string
	Folders []string
	// Path is put in front of $PATH.
	Path string
	// Environment is added to that of the test.
	Environment []string
	// Cluster means that there is a cluster: documents run with all their blocks. Otherwise those
	// that need one are skipped.
	Cluster bool
	// Update writes what commands print into the documents, instead of failing.
	Update bool
}

// Make is a program for [Options.Path]: a make that does what documents need of it, with
// programs that are compiled already.
const Make = "#!/bin/sh\ncase $1 in\nbuild) ;;\nrun) exec hack/run.sh \"$(command -v usher)\" ;;\n" +
	"*) echo \"make $*: not part of the test\" >&2; exit 3 ;;\nesac\n"

// taken are the ports that documents name.
var taken = []string{"8443", "8444", "8445", "8446", "8080"}

// NeedsCluster reports whether one of the blocks needs a cluster.
func (d *Document) NeedsCluster() bool {
	for i := range d.Blocks {
		if d.Blocks[i].Cluster {
			return true
		}
	}
	return false
}

// Run runs the blocks of the document, in order. Nothing that they write may be seen by git.
func (d *Document) Run(t *testing.T, o Options) {
	t.Helper()
	tmp := t.TempDir()
	work := filepath.Join(tmp, "work")
	// A marker that no output holds by chance, as it is restored there.
	names := [][2]string{{"/tmp", tmp + "/tmp"}}
	// The first is also what hack/run.sh listens on.
	for _, port := range taken {
		names = append(names, [2]string{port, freePort(t)})
	}
	if err := prepare(work, o, names[1:]); err != nil {
		t.Fatal(err)
	}
	s, err := newSession(work, append(o.Environment, "PATH="+o.Path+":"+os.Getenv("PATH"), "TMPDIR="+tmp+"/tmp", "NO_COLOR=1", "PORT="+names[1][1]), names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	edits := d.runBlocks(t, s, o)
	if o.Update && len(edits) > 0 {
		if err := d.write(edits); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := git(work, "status", "--porcelain"); err != nil || left != "" {
		t.Errorf("%s: commands write where git sees it: %v\n%s", d.Path, err, left)
	}
}

func (d *Document) runBlocks(t *testing.T, s *session, o Options) []edit {
	t.Helper()
	var edits []edit
	for i := range d.Blocks {
		b := &d.Blocks[i]
		switch {
		case b.File != "":
			if err := d.keep(s, o, b); err != nil {
				t.Errorf("%s:%d: %v", d.Path, b.Line, err)
			}
			continue
		case b.Skip != "" || b.Cluster && !o.Cluster:
			continue
		}
		for j := range b.Commands {
			c := &b.Commands[j]
			printed, err := s.check(c, b, j == len(b.Commands)-1)
			switch {
			case err != nil && o.Update && len(c.Output) > 0 && !b.Server:
				edits = append(edits, edit{c, printed})
			case err != nil:
				t.Errorf("%s:%d: $ %s\n%v\nit prints:\n%s", d.Path, c.Line, c.Text, err, strings.Join(printed, "\n"))
			}
		}
	}
	return edits
}

// keep writes the file that a block shows. A file of the repository must have that content.
func (d *Document) keep(s *session, o Options, b *Block) error {
	text, err := os.ReadFile(filepath.Join(o.Root, filepath.FromSlash(b.File)))
	if os.IsNotExist(err) {
		return s.write(b.File, b.Text)
	}
	if err == nil && !strings.Contains(unindented(b.File, string(text)), unindented(b.File, b.Text)) {
		err = fmt.Errorf("%s does not hold what the block shows", b.File)
	}
	return err
}

// unindented returns a text without the indentation of its lines if that means nothing in the file: documents show
// the bodies of functions.
func unindented(file, text string) string {
	if filepath.Ext(file) != ".go" {
		return text
	}
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "")
}

// check runs a command and compares its output.
func (s *session) check(c *Command, b *Block, last bool) (printed []string, err error) {
	if b.Server && last {
		return s.serve(strings.TrimSpace(c.Text+" "+b.Args), c.Output)
	}
	printed, status, err := s.run(c.Text)
	switch {
	case err != nil:
		return printed, err
	case len(c.Output) == 0 && status != 0:
		return printed, fmt.Errorf("it ends with status %d", status)
	case len(c.Output) > 0 && !Match(c.Output, printed):
		return printed, fmt.Errorf("the document shows:\n%s", strings.Join(c.Output, "\n"))
	}
	return printed, nil
}

// prepare copies folders of the repository, as git clones them. In webhook configurations among the
// examples, it replaces the ports by those of the test.
func prepare(work string, o Options, ports [][2]string) error {
	if err := os.MkdirAll(filepath.Join(filepath.Dir(work), "tmp"), 0o755); err != nil {
		return err
	}
	for _, folder := range o.Folders {
		if err := os.CopyFS(filepath.Join(work, folder), os.DirFS(filepath.Join(o.Root, folder))); err != nil {
			return err
		}
	}
	configurations, err := filepath.Glob(filepath.Join(work, "examples", "*", "*", "webhook.yaml"))
	if err != nil {
		return err
	}
	for _, path := range configurations {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte((&session{names: ports}).replace(string(text))), 0o644); err != nil {
			return err
		}
	}
	ignored, err := os.ReadFile(filepath.Join(o.Root, ".gitignore"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, ".gitignore"), ignored, 0o644); err != nil {
		return err
	}
	if _, err := git(work, "init", "-q"); err != nil {
		return err
	}
	// What the repository has committed needs no object of its own: git writes one a file otherwise.
	command := exec.Command("git", "rev-parse", "--path-format=absolute", "--git-path", "objects")
	command.Dir = o.Root
	if objects, err := command.Output(); err == nil {
		if err := os.WriteFile(filepath.Join(work, ".git", "objects", "info", "alternates"), objects, 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"add", "-A"}, {"-c", "user.name=docs", "-c", "user.email=docs@localhost", "commit", "-q", "--no-verify", "-m", "docs"},
	} {
		if _, err := git(work, args...); err != nil {
			return err
		}
	}
	return nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	// The test may itself run under git, in a hook.
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(dir, ".git"), "GIT_WORK_TREE="+dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_INDEX_FILE="+filepath.Join(dir, ".git", "index"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
