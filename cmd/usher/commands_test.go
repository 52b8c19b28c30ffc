package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/internal/cli/clitest"
)

func silent() cli.Streams { return cli.Streams{Out: io.Discard, Err: io.Discard} }

// TestCommandsAreConsistent is about all commands at once: what is the same is called the same.
func TestCommandsAreConsistent(t *testing.T) {
	t.Parallel()
	clitest.Consistent(t, newRoot(silent()))
}

// TestFlagsOnlyGrow holds the promise of docs/upgrading.md for flags.
func TestFlagsOnlyGrow(t *testing.T) {
	t.Parallel()
	clitest.OnlyGrow(t, newRoot(silent()), "testdata/flags.txt")
}

// TestJSONIsCamelCase runs every command that has JSON output and looks at each key of it.
func TestJSONIsCamelCase(t *testing.T) {
	t.Parallel()
	const examples = "../../examples/"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	authz := []string{"-p", examples + "authorization/policies", "--rbac", examples + "authorization/rbac.yaml"}
	for _, config := range [][]string{
		{"authz", "config", "--server", "https://127.0.0.1:8444", "--ca-file", "ca.crt", "--token-file", "token", "--match", "all", "--out", dir},
		{"admission", "config", "--token-file", "token", "--out", dir},
	} {
		if _, stderr, status := execute(t, config); status != cli.ExitOK {
			t.Fatalf("usher %s: status %d: %s", strings.Join(config, " "), status, stderr)
		}
	}
	decisions := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"sequence":1,"apiVersion":"v1","rules":[{"policy":{"name":"p"},"validations":["v"]}]}]}`)
	}))
	t.Cleanup(decisions.Close)
	ca, token := filepath.Join(dir, "decisions.crt"), filepath.Join(dir, "decisions.token")
	for file, text := range map[string][]byte{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: decisions.Certificate().Raw}), token: []byte("x")} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(none.Close)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: '"+none.URL+"'}}], contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c, users: [{name: u, user: {}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{
		"usher status":         {"--kubeconfig", kubeconfig},
		"usher watch":          {"--once", "--server", decisions.URL, "--ca-file", ca, "--token-file", token},
		"usher audit":          {"-p", examples + "object-policies/policies", "-p", examples + "cel/policies", "--facts", examples + "cel/namespaces.yaml", "--what-if", examples + "cel/policies", examples + "objects"},
		"usher check":          {"--verbose", examples + "policies", "../../internal/policytest/testdata/own/policies"},
		"usher decide":         {"-p", examples + "policies", examples + "objects"},
		"usher explain":        {"-p", examples + "policies", examples + "objects", "--cost"},
		"usher simulate":       {"-p", examples + "policies", examples + "objects/pod.yaml", "--cluster-files", examples + "objects"},
		"usher test":           {"--coverage", "--mutate", examples + "authorization/suite.yaml", examples + "cookbook"},
		"usher admission lint": {filepath.Join(dir, "admission.yaml")},
		"usher authz lint":     {filepath.Join(dir, "authorization.yaml")},
		"usher authz can-i":    append([]string{"get", "secrets/db", "-n", "shop", "--as", "jane", "--as-extra", "a=b"}, authz...),
		"usher authz who-can":  append([]string{"get", "secrets", "-n", "shop"}, authz...),
		"usher authz what-can": append([]string{"--as", "jane", "--as-group", "devs"}, authz...),
		"usher authz diff":     {examples + "authorization/policies/hide-db.yaml", examples + "authorization/policies/own-config.yaml"},
		"usher impact":         {examples + "../docs/testdata/impact/old", examples + "../docs/testdata/impact/new", "--requests", examples + "../docs/testdata/impact/audit.log"},
		"usher bench":          {server.URL, "-f", examples + "objects/pod.yaml", "--insecure-skip-tls-verify", "--duration", "10ms"},
		"usher version":        {},
		"usher library list":   {"supply-chain"},
		"usher library show":   {"image-tags"},
		"usher library try":    {"best-practices", "defaults", "-f", examples + "objects"},
	}
	for _, cmd := range clitest.Commands(newRoot(silent())) {
		path := cmd.CommandPath()
		if cmd.Flags().Lookup("output") == nil {
			continue
		}
		args, ok := commands[path]
		if !ok {
			t.Errorf("%s has JSON output: add a command line that shows it", path)
			continue
		}
		args = slices.Concat(strings.Fields(path)[1:], args, []string{"-o", "json"})
		stdout, stderr, status := execute(t, args)
		var value any
		if err := json.Unmarshal([]byte(stdout), &value); err != nil || status == cli.ExitUnusable {
			t.Errorf("%s: status %d, %v: %s", strings.Join(args, " "), status, err, stderr)
			continue
		}
		camelCase(t, path, value)
	}
}

func execute(t *testing.T, args []string) (stdout, stderr string, status int) {
	t.Helper()
	var out, err bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err}
	status = cli.Execute(t.Context(), newRoot, s, args)
	return out.String(), err.String(), status
}

var camel = regexp.MustCompile("^[a-z][a-zA-Z0-9]*$")

// foreign are keys with values that are not Usher's: objects, and maps that users name.
var foreign = []string{"audit", "before", "extra", "metadata", "result", "value", "verdicts"}

func camelCase(t *testing.T, path string, value any) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			camelCase(t, path, item)
		}
	case map[string]any:
		for key, item := range v {
			if !camel.MatchString(key) {
				t.Errorf("%s: the key %q in JSON is not in camelCase", path, key)
			}
			if !slices.Contains(foreign, key) {
				camelCase(t, path+" ."+key, item)
			}
		}
	}
}

// TestReference: the pages of docs have every flag of every command.
func TestReference(t *testing.T) {
	t.Parallel()
	clitest.Reference(t, newRoot(silent()), "../../docs/reference/cli")
}
