package compile

import "github.com/usher-dev/usher/internal/rule"

// deleted leaves nothing of a policy that is being deleted: it is out of force, also while finalizers
// keep the object. Otherwise a finalizer that nobody removes would keep a policy in force that its
// owner has deleted.
func (c *Compiled) deleted() []rule.Problem {
	if c.Policy.Object == nil || c.Policy.Object.GetDeletionTimestamp() == nil {
		return nil
	}
	if !c.clear() {
		return nil
	}
	return []rule.Problem{{
		Severity: rule.Warning, Field: "metadata.deletionTimestamp",
		What: "the policy is being deleted: it is out of force", Do: "remove its finalizers, and create it again if it should be in force",
	}}
}

// clear leaves nothing of a policy that decides, and reports whether there was something.
func (c *Compiled) clear() bool {
	had := len(c.Rules)+len(c.Access) > 0 || c.Admission != nil || c.Binding != nil || c.Exemption != nil || c.Candidate != nil
	c.Rules, c.Access, c.Admission, c.Binding, c.Exemption, c.Candidate, c.Object = nil, nil, nil, nil, nil, nil, nil
	return had
}
