package doctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// limit is the timeout of a command, or of a server until it has printed what the document shows. Some
// wait for what happens each minute.
const limit = 3 * time.Minute

// A session is what the blocks of a document share.
type session struct {
	dir string
	// state is the file that carries variables and the folder from one command to the next.
	state string
	// names are replaced in commands, and back in outputs: ports and folders that the
	// document names but that a test must not take.
	names   [][2]string
	servers []*exec.Cmd
	ended   map[*exec.Cmd]chan error
	count   int
}

func newSession(dir string, environment []string, names [][2]string) (*session, error) {
	s := &session{dir: dir, state: filepath.Join(dir, "..", "state"), names: names, ended: map[*exec.Cmd]chan error{}}
	var b strings.Builder
	fmt.Fprintf(&b, "cd %s\n", quote(dir))
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
	}
	return s, os.WriteFile(s.state, []byte(b.String()), 0o600)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// replace replaces names in the document by those that the test uses.
func (s *session) replace(text string) string {
	for _, name := range s.names {
		text = word(name[0]).ReplaceAllLiteralString(text, name[1])
	}
	return text
}

func (s *session) restore(text string) string {
	for _, name := range s.names {
		text = word(name[1]).ReplaceAllLiteralString(text, name[0])
	}
	return text
}

// word matches a port or a folder, not the digits of a longer number.
func word(name string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(name) + `\b`
	if !strings.HasPrefix(name, "/") {
		pattern = `\b` + pattern
	}
	return regexp.MustCompile(pattern)
}

// write writes a file that the document shows.
func (s *session) write(name, text string) error {
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// start starts a command in a shell with the environment of the commands before.
func (s *session) start(text string) (cmd *exec.Cmd, output string, err error) {
	s.count++
	output = filepath.Join(s.dir, "..", fmt.Sprintf("output%d", s.count))
	file, err := os.Create(output)
	if err != nil {
		return nil, "", err
	}
	defer file.Close() // The command has its own.
	script := fmt.Sprintf(". %[1]s\n%[2]s\nstatus=$?\n{ echo cd \"'$PWD'\"; export -p; } > %[1]s\nexit $status\n", quote(s.state), s.replace(text))
	cmd = exec.Command("bash", "-c", script)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.ended[cmd] = ended
	s.servers = append(s.servers, cmd)
	return cmd, output, nil
}

// run runs a command to its end and returns the lines that it printed.
func (s *session) run(text string) (printed []string, status int, err error) {
	cmd, output, err := s.start(text)
	if err != nil {
		return nil, 0, err
	}
	select {
	case err = <-s.ended[cmd]:
		s.ended[cmd] <- err
	case <-time.After(limit):
		return nil, 0, fmt.Errorf("it still runs after %s; mark the block as server if it has to", limit)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, 0, err
	}
	printed, err = s.read(output)
	return printed, cmd.ProcessState.ExitCode(), err
}

// serve starts a command and returns when it has printed what the document shows.
func (s *session) serve(text string, shown []string) (printed []string, err error) {
	cmd, output, err := s.start(text)
	if err != nil {
		return nil, err
	}
	timeout := time.After(limit)
	for {
		if printed, err = s.read(output); err != nil || Match(shown, printed) {
			return printed, err
		}
		select {
		case err := <-s.ended[cmd]:
			s.ended[cmd] <- err
			return printed, fmt.Errorf("it has ended: %w", err)
		case <-timeout:
			return printed, fmt.Errorf("it has not printed this after %s", limit)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *session) read(output string) ([]string, error) {
	text, err := os.ReadFile(output)
	if err != nil {
		return nil, err
	}
	trimmed := strings.TrimRight(s.restore(string(text)), "\n")
	if trimmed == "" {
		return nil, nil
	}
	return strings.Split(trimmed, "\n"), nil
}

// close ends all running commands and their child processes.
func (s *session) close() {
	for _, cmd := range s.servers {
		// The group may live on without its first process.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	}
	for _, cmd := range s.servers {
		select {
		case <-s.ended[cmd]: //nolint:errcheck // how it ends does not matter any more
		case <-time.After(15 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
