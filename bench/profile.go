package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/internal/load"
)

// profiled are the targets whose profiles show the compiler what usher does most.
var profiled = []string{"no policy", "1 template", "100 cue", "100 validate template", "10000 that do not match", restricted}

// runProfile writes the profile that usher is built with: of all profiled targets, with many
// connections.
func runProfile(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("profile", flag.ContinueOnError)
	binary := flags.String("usher", "bin/usher", "the binary to profile")
	duration := flags.Duration("time", 10*time.Second, "how long each target is asked")
	out := flags.String("o", "cmd/usher/usher.pgo", "file for the profile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	body, err := review(7000)
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	r, err := newRig(*binary, []string{"--metrics-bind-address", address, "--enable-pprof"})
	if err != nil {
		return err
	}
	defer r.close()
	merge := []string{"tool", "pprof", "-proto", "-output", *out}
	targets, err := allTargets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if !slices.Contains(profiled, t.name) {
			continue
		}
		if _, err := fmt.Fprintln(os.Stderr, "profiling", t.name); err != nil {
			return err
		}
		file := filepath.Join(r.dir, fmt.Sprintf("%d.prof", len(merge)))
		if err := r.profile(ctx, t, body, "http://"+address, *duration, file); err != nil {
			return fmt.Errorf("profile %s: %w", t.name, err)
		}
		merge = append(merge, file)
	}
	if said, err := exec.CommandContext(ctx, "go", merge...).CombinedOutput(); err != nil {
		return fmt.Errorf("merge profiles: %w: %s", err, said)
	}
	return hideFolder(*out, *binary)
}

// hideFolder replaces the folder of the binary by as many slashes: the profile is for everybody.
func hideFolder(file, binary string) error {
	path, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("read merged profile: %w", err)
	}
	profile, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("read merged profile: %w", err)
	}
	name := filepath.Base(path)
	hidden := strings.Repeat("/", len(path)-len(name)) + name
	var again bytes.Buffer
	pack := gzip.NewWriter(&again)
	if _, err := pack.Write(bytes.ReplaceAll(profile, []byte(path), []byte(hidden))); err != nil {
		return err
	}
	if err := pack.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, again.Bytes(), 0o644)
}

// freeAddress is an address with a free port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// profile sends requests to a target for a while and writes the profile that it serves at url to a
// file.
func (r *rig) profile(ctx context.Context, t target, body []byte, url string, duration time.Duration, file string) error {
	s, err := r.subject(ctx, plan{connections: 16}, t, body)
	if err != nil {
		return err
	}
	defer s.close()
	fetched := make(chan error, 1)
	go func() {
		fetched <- fetch(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, int(duration.Seconds())), file)
	}()
	result := s.many.Run(ctx, load.Pace{Duration: duration + time.Second})
	if len(result.Errors) > 0 {
		return fmt.Errorf("it does not answer: %v", result.Errors)
	}
	return <-fetched
}

func fetch(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
