"""Bad input in quantity: whatever is parsed gives a value or an error of ours, soon and in little memory."""
