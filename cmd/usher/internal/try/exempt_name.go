package try

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
)

// exemptionName returns a name by which people know an exemption. It ends with a hash of what is exempt and from
// what, so that no exemption takes the place of one that is for something else, and one that is written
// again to last longer takes the place of itself.
func exemptionName(policy string, r *usher.Request, object string, spec map[string]any) (string, error) {
	scope, err := json.Marshal([]any{spec["policyRefs"], spec["matchConstraints"], spec["matchConditions"], spec["images"]})
	if err != nil {
		return "", fmt.Errorf("encode exemption: %w", err)
	}
	const most, digits = 253, 5
	parts := []string{policy}
	if inNamespace(r) {
		parts = append(parts, r.Namespace)
	}
	name := validName(strings.Join(append(parts, object), "-"))
	hash := sha256.Sum256(scope)
	return strings.TrimRight(name[:min(len(name), most-digits-1)], "-.") + "-" + hex.EncodeToString(hash[:])[:digits], nil
}

// validName returns a text without characters that names must not have.
func validName(text string) string {
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			return c
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(clean, "-.")
}

// nameAndPrefix returns the name of the object of a request, or the prefix of a name that is
// generated.
func nameAndPrefix(r *usher.Request) (name, generated string, err error) {
	object, err := r.Target().Tree()
	if err != nil {
		return "", "", err
	}
	metadata, _ := object["metadata"].(map[string]any)
	if name, _ = metadata["name"].(string); name == "" {
		name = r.Name
	}
	if name == "" {
		generated, _ = metadata["generateName"].(string)
	}
	return name, generated, nil
}
