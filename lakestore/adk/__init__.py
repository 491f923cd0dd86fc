"""What ADK sees: sessions; the only importer of google.adk."""
