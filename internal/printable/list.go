package printable

import "strings"

// List returns words as a sentence has them: a, b and c, with the last word before the last one.
func List(words []string, and string) string {
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " " + and + " " + words[last]
	}
	return strings.Join(words, "")
}
