package deploy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestImagesArePinned keeps what is built into the image from changing by itself: every image
// that it is built from or copied from is empty, an earlier stage, or named by its digest.
func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	froms := 0
	for _, problem := range unpinned(string(text), &froms) {
		t.Error(problem)
	}
	if froms == 0 {
		t.Error("the Dockerfile has no FROM")
	}
}

func TestUnpinned(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		reason, text string
		want         int
	}{
		{"scratch is empty", "FROM scratch", 0},
		{"a digest", "FROM --platform=$BUILDPLATFORM golang:1.26" + digest + " AS build", 0},
		{"a tag", "from golang:1.26 AS build", 1},
		{"a digest that is too short", "FROM golang:1.26@sha256:0123", 1},
		{"an earlier stage", "FROM golang" + digest + " AS build\nFROM build\nCOPY --from=build /a /b", 0},
		{"a later stage is an image", "FROM build\nFROM scratch AS build", 1},
		{"what is copied from an image", "FROM scratch\nCOPY --chown=1:1 --from=alpine:3 /a /b", 1},
		{"a name that is a variable", "ARG BASE\nFROM $BASE", 1},
	} {
		var froms int
		if got := unpinned(test.text, &froms); len(got) != test.want {
			t.Errorf("%s: %q, want %d", test.reason, got, test.want)
		}
	}
}

var (
	from   = regexp.MustCompile(`(?i)^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?`)
	copies = regexp.MustCompile(`(?i)--(?:mount=\S*,)?from=([^\s,]+)`)
	digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
)

// unpinned names the images of a Dockerfile that are not pinned, and counts its stages.
func unpinned(text string, froms *int) []string {
	stages := map[string]bool{"scratch": true}
	var problems []string
	check := func(line, image string) {
		if !stages[strings.ToLower(image)] && !digest.MatchString(image) {
			problems = append(problems, strings.TrimSpace(line)+": "+image+" is not pinned: name its digest, as in NAME:TAG@sha256:DIGEST")
		}
	}
	for line := range strings.Lines(text) {
		if m := from.FindStringSubmatch(line); m != nil {
			*froms++
			check(line, m[1])
			stages[strings.ToLower(m[2])] = true
			continue
		}
		for _, m := range copies.FindAllStringSubmatch(line, -1) {
			check(line, m[1])
		}
	}
	return problems
}
