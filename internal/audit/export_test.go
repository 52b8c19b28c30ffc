package audit

import "context"

// Next judges one projection, and reports whether there was one.
func (a *Auditor) Next() bool { return a.worker.next(context.Background()) }
