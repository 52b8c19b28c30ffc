package try

// Named returns which of the arguments of usher exempt name objects of a cluster, and which files.
func Named(fromCluster bool, args []string) (named, files []string) {
	f := exemptFlags{}
	f.fromCluster = fromCluster
	files = f.takeNamed(args)
	return f.named, files
}
