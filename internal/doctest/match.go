package doctest

import (
	"regexp"
	"strings"
)

// volatile are the parts of outputs that differ each time.
var volatile = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}(T[\d:.]+Z)?\b`), "DATE"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|ms|s|m\d+s)\b`), "DURATION"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d{5}\b`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`\b(usher-[a-z]+-?)\d{5,}\b`), "${1}NUMBER"},
	{regexp.MustCompile(` +$`), ""},
}

func normal(line string) string {
	for _, v := range volatile {
		line = v.pattern.ReplaceAllString(line, v.name)
	}
	return line
}

// loaded matches what a loaded machine prints in addition.
var loaded = regexp.MustCompile(`^Warning: not tried on .*: there was no time\b`)

// Match reports whether the lines that a document shows match those that a command printed.
func Match(shown, printed []string) bool {
	if len(printed) > 0 && loaded.MatchString(printed[0]) && (len(shown) == 0 || !matchLine(shown[0], printed[0])) {
		return Match(shown, printed[1:])
	}
	if len(shown) == 0 {
		return len(printed) == 0
	}
	if isEllipsis(shown[0]) {
		for skip := 0; skip <= len(printed); skip++ {
			if Match(shown[1:], printed[skip:]) {
				return true
			}
		}
		return false
	}
	return len(printed) > 0 && matchLine(shown[0], printed[0]) && Match(shown[1:], printed[1:])
}

func isEllipsis(line string) bool {
	line = strings.TrimSpace(line)
	return line == "..." || line == "…"
}

func matchLine(shown, printed string) bool {
	shown, printed = normal(shown), normal(printed)
	parts := strings.Split(strings.ReplaceAll(shown, "…", "..."), "...")
	if len(parts) == 1 {
		return shown == printed
	}
	rest, ok := strings.CutPrefix(printed, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, last)
}
