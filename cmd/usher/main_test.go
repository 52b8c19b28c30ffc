package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format/formattest"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

func TestMain(m *testing.M) {
	isolated.Main()
	testscript.Main(m, map[string]func(){"usher": func() { os.Exit(cli.Main(newRoot)) }, "ask": ask})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "")
			return nil
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"sarif": validSARIF},
		RequireExplicitExec: true,
	})
}

// validSARIF is the command sarif of scripts: it fails unless the file, such as stdout, is a log that
// code scanning accepts.
func validSARIF(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 1 {
		ts.Fatalf("usage: sarif FILE")
	}
	if err := formattest.SARIF([]byte(ts.ReadFile(args[0]))); err != nil {
		ts.Fatalf("%v", err)
	}
}

// ask is what scripts call in the place of an API server: ask CA URL [REVIEW] posts a
// review, or gets a page, and prints the answer.
func ask() {
	ca, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	var response *http.Response
	if len(os.Args) > 3 {
		review, readErr := os.ReadFile(os.Args[3])
		if readErr != nil {
			fail(readErr)
		}
		response, err = client.Post(os.Args[2], "application/json", bytes.NewReader(review))
	} else {
		response, err = client.Get(os.Args[2])
	}
	if err != nil {
		fail(err)
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		fail(err)
	}
	fmt.Printf("%d %s\n", response.StatusCode, answer)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "ask:", err)
	os.Exit(1)
}
