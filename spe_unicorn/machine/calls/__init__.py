"""What the guest asks of the machine by HVC, SMC and semihosting, answered here."""
