package enforce

// Withdraw is withdraw, for tests.
var Withdraw = withdraw
