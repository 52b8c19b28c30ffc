package rule

import (
	"fmt"
	"strconv"
	"strings"
)

// The releases of Kubernetes that Usher knows: of 1.28 are the first admission policies that have
// all of their present fields.
const (
	oldestRelease = 28
	newestRelease = 36
)

// A Release is a minor version of Kubernetes. The zero Release is the newest one.
type Release struct{ minor int }

// ParseRelease reads a release, such as 1.30; a patch version does not count. The empty text is the
// newest release.
func ParseRelease(text string) (Release, error) {
	if text == "" {
		return Release{}, nil
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	number, err := strconv.Atoi(minor)
	switch {
	case major != "1" || err != nil:
		return Release{}, fmt.Errorf("parse version of Kubernetes %q: expected a version such as 1.%d", text, newestRelease)
	case number < oldestRelease:
		return Release{}, fmt.Errorf("parse version of Kubernetes %q: the oldest that is known is 1.%d", text, oldestRelease)
	case number > newestRelease:
		return Release{}, fmt.Errorf("parse version of Kubernetes %q: the newest that is known is 1.%d", text, newestRelease)
	}
	return Release{number}, nil
}

// Releases returns all releases, the oldest first.
func Releases() []Release {
	var all []Release
	for minor := oldestRelease; minor <= newestRelease; minor++ {
		all = append(all, Release{minor})
	}
	return all
}

// Minor returns the minor version: 30 is that of 1.30.
func (r Release) Minor() int {
	if r.minor == 0 {
		return newestRelease
	}
	return r.minor
}

// String is the release as ParseRelease reads it.
func (r Release) String() string { return fmt.Sprintf("1.%d", r.Minor()) }
