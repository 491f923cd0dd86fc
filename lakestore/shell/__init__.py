"""What the command line prints: tables, conversations, trees, and ADK's services.yaml."""
