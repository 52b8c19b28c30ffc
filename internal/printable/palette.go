package printable

import "strings"

// A Palette paints text for the writer that it is of; the zero palette leaves it as it is.
type Palette struct{ Red, Green, Yellow, Cyan, Bold, Faint string }

// Paint returns text in a colour of a [Palette].
func Paint(colour, text string) string {
	if colour == "" {
		return text
	}
	begin, _, _ := strings.Cut(colour, "[")
	return colour + text + begin + "[0m"
}
