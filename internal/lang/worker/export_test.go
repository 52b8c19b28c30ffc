package worker

// WithProgram returns o with another program to be started as a worker.
func (o Options) WithProgram(path string) Options {
	o.program = path
	return o
}
