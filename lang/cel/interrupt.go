package cel

import "context"

// interruptEvery is how many iterations there are between two questions whether to stop. An API
// server asks after 100: comparing large objects 100 times takes seconds.
const interruptEvery = 16

// An Interrupt stops loops when a context is done; the zero Interrupt never does. Activations have
// it resolve names that they do not know. It is not safe for concurrent use.
type Interrupt struct {
	Context context.Context //nolint:containedctx // an Interrupt is as short-lived as a call
	asked   uint
	// done says that the context is done: loops around go on after the error of one in them.
	done bool
}

// ResolveName resolves the name by which loops ask whether to stop.
func (i *Interrupt) ResolveName(name string) (any, bool) {
	if name != "#interrupted" || i.Context == nil {
		return nil, false
	}
	if i.asked++; !i.done && i.asked%interruptEvery == 0 {
		// Some contexts make a timer when they are asked for a channel.
		i.done = i.Context.Err() != nil
	}
	return i.done, i.done
}
