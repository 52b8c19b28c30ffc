package candidate

import usher "github.com/usher-dev/usher"

// Offer offers a decision that shows nothing of the policies in force.
func (e *Evaluator) Offer(r *usher.Request, d *usher.Decision) { e.offer(r, d, nil) }
