package write

// Tried is for tests.
var Tried = tried
