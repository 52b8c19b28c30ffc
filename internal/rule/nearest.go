package rule

import "strings"

// Nearest returns the word in words that is most similar to wrong, "" if none is similar. It
// ignores case; of equally similar words it returns the first in alphabetical order.
func Nearest(wrong string, words []string) string {
	best, bestDistance := "", min(3, (len(wrong)+1)/3)+1
	for _, word := range words {
		// Lengths alone tell; a tenant may have written a word of a megabyte.
		if max(len(word)-len(wrong), len(wrong)-len(word)) > bestDistance {
			continue
		}
		d := distance(strings.ToLower(wrong), strings.ToLower(word))
		if d < bestDistance || d == bestDistance && best != "" && word < best {
			best, bestDistance = word, d
		}
	}
	return best
}

// Suggestion asks whether wrong means the [Nearest] of words. It returns "" if none is similar.
func Suggestion(wrong string, words []string) string {
	near := Nearest(wrong, words)
	if near == "" {
		return ""
	}
	return "did you mean " + near + "?"
}

// distance is the number of letters to insert, delete, replace or swap to turn a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
