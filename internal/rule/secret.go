package rule

import "fmt"

// TellsSecret warns of a part of a policy that can tell others what is in a Secret, which it reads by something. If
// it mutates, it tells in the object, and otherwise in a message or an annotation.
func TellsSecret(field, by string, mutates bool) Problem {
	who, do := "users whose requests are decided, and anyone who reads audit logs, can read it", "say what is expected, and not what is there"
	if mutates {
		who, do = "anyone who may read the changed object can read it", "refer to the Secret in the object, and do not copy its data"
	}
	return Problem{Severity: Warning, Field: field, What: fmt.Sprintf("it can contain what is in a Secret, by %s: %s", by, who), Do: do}
}
