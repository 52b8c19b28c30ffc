package usher

// Grants are what a user may do in a namespace, in lists as in RBAC.
type Grants struct {
	Allowed []Grant
	// Incomplete reports that the user may be allowed more, or denied some of this: rules with
	// conditions, selectors or patterns, and denials, are not listed.
	Incomplete bool
}

// A Grant is one permission. "*" means everything.
type Grant struct {
	// Verbs are verbs of resources, or HTTP methods if there are Paths.
	Verbs []string
	// Groups and Resources are those of a rule for resources; it is for all objects if Names is empty.
	Groups, Resources, Names []string
	// Paths are URL paths; a "*" at the end matches any rest.
	Paths []string
}
