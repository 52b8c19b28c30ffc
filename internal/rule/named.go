package rule

import (
	"strings"

	usher "github.com/usher-dev/usher"
)

// Names reports whether a text names a policy: NAME, NAMESPACE/NAME, KIND/NAME or
// KIND/NAMESPACE/NAME.
func Names(text string, p usher.PolicyRef) bool {
	rest, ok := strings.CutSuffix(text, p.Name)
	if !ok || rest == "" {
		return ok
	}
	if p.Namespace != "" {
		rest, ok = strings.CutSuffix(rest, p.Namespace+"/")
	}
	return ok && (rest == "" || rest == p.Kind+"/")
}

// FullName returns the text that names a policy alone, also as an argument of kubectl: KIND/NAME or KIND/NAMESPACE/NAME.
func FullName(p usher.PolicyRef) string {
	if p.Namespace == "" {
		return p.Kind + "/" + p.Name
	}
	return p.Kind + "/" + p.Namespace + "/" + p.Name
}

// Unknown says that a text names none of the policies, and which one it most likely means; "" if it names one.
func Unknown(text string, policies []usher.PolicyRef) string {
	var words []string
	for _, p := range policies {
		if Names(text, p) {
			return ""
		}
		full := FullName(p)
		for _, word := range []string{p.Name, strings.TrimPrefix(full, p.Kind+"/"), full} {
			if strings.Count(word, "/") == strings.Count(text, "/") {
				words = append(words, word)
			}
		}
	}
	unknown := "there is no policy " + text
	if suggestion := Suggestion(text, words); suggestion != "" {
		unknown += ": " + suggestion
	}
	return unknown
}
