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
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/cert"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"usher-samples": func() { os.Exit(cli.Main(newRoot)) }, "ask": ask, "certs": certs})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
	})
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

// certs writes a certificate for a host, and its CA, to a folder: certs DIR HOST.
func certs() {
	if _, err := cert.Issue(os.Args[1], os.Args[2:], time.Hour); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	os.Exit(1)
}
