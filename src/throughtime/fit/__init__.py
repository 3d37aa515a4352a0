"""The training loop and its parts. It knows tasks only as an interface (`throughtime.fit.objective`)."""
