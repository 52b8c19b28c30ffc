package webhook_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/usher-dev/usher/webhook"
)

// TestMain makes of this binary, if asked, a program that is nothing but a webhook.
func TestMain(m *testing.M) {
	if os.Getenv("WEBHOOK_MAIN") != "" {
		webhook.Main(says("hello"))
		return
	}
	m.Run()
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "WEBHOOK_MAIN=1")
	return command
}

func TestMainServesUntilItIsToldToEnd(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be interrupted there")
	}
	command := program(t, "--address", "127.0.0.1:0")
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	lines := bufio.NewReader(stderr)
	warning, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(warning, "no certificate is configured") {
		t.Fatalf("it says %q, %v", warning, err)
	}
	line, err := lines.ReadString('\n')
	found := regexp.MustCompile(`serving url=(\S+)`).FindStringSubmatch(line)
	if err != nil || found == nil {
		t.Fatalf("it says %q, %v", line, err)
	}
	// Nobody knows the CA that the program has made.
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get(found[1] + "/hook")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", response, err)
	}
	_ = response.Body.Close()
	client.CloseIdleConnections()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	// The rest is to be read before Wait, which closes the pipe.
	for err == nil {
		_, err = lines.ReadString('\n')
	}
	if err := command.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestMainFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		args   []string
		status int
		says   string
	}{
		{"a certificate that is not there", []string{"--tls-cert-file", "nowhere", "--tls-private-key-file", "nowhere"}, 1, "load certificate: open nowhere"},
		{"names that nobody vouches for", []string{"--client-names", "kube-apiserver"}, 1, "ClientNames need ClientCAFile"},
		{"a token that is not there", []string{"--token-file", "nowhere"}, 1, "load token: open nowhere"},
		{"an unknown flag", []string{"--nonsense"}, 2, "-tls-private-key-file"},
	}
	for _, test := range tests {
		out, err := program(t, test.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != test.status || !strings.Contains(string(out), test.says) {
			t.Errorf("%s: %v: %s", test.reason, err, out)
		}
	}
}
