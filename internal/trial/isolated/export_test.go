package isolated

// Usual are the policies for which workers prepare.
var Usual = usual
