"""offline_eval"""
