package rule_test

import (
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

func TestUnknown(t *testing.T) {
	t.Parallel()
	policies := []usher.PolicyRef{{Kind: "ClusterObjectPolicy", Name: "team"}, {Kind: "ObjectPolicy", Namespace: "shop", Name: "limits"}}
	for text, want := range map[string]string{
		"team": "", "ClusterObjectPolicy/team": "", "limits": "", "shop/limits": "", "ObjectPolicy/shop/limits": "",
		"tema":                     "there is no policy tema: did you mean team?",
		"shop/limit":               "there is no policy shop/limit: did you mean shop/limits?",
		"ObjectPolcy/shop/limits":  "there is no policy ObjectPolcy/shop/limits: did you mean ObjectPolicy/shop/limits?",
		"lab/something":            "there is no policy lab/something",
		"ObjectPolicy/lab/limitss": "there is no policy ObjectPolicy/lab/limitss",
	} {
		if got := rule.Unknown(text, policies); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
